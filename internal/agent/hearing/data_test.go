package hearing

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// An agent is believed of the data of pods on its node that name data, and hears of
// which pods nothing is known.
func TestTheScribeOfData(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	pod := func(name, node string, volumes int) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)}}
		p.Spec.NodeName = node
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		for range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver}}})
		}
		return p
	}
	here, two, elsewhere, without := pod("here", "one", 1), pod("two", "one", 2), pod("elsewhere", "two", 1), pod("without", "one", 0)
	api := fake.NewClientBuilder().WithObjects(here, two, elsewhere, without).WithStatusSubresource(here).
		WithIndex(&corev1.Pod{}, DataByNode, IndexDataByNode).Build()
	scribe := &Scribe{Pods: api, API: api, Now: func() time.Time { return now }}
	at := metav1.NewMicroTime(now.Add(-3 * time.Second))
	mounted := v1alpha1.PodData{Mounted: 1, MountedTime: &at, Reason: v1alpha1.DataMounted}
	said := map[types.UID]v1alpha1.PodData{here.UID: mounted, two.UID: mounted, elsewhere.UID: mounted, without.UID: mounted}
	unknown, err := scribe.TakeData(t.Context(), "one", said)
	slices.Sort(unknown)
	if err != nil || !slices.Equal(unknown, []types.UID{"uid-elsewhere", "uid-without"}) {
		t.Fatalf("unknown are %v; %v", unknown, err)
	}
	condition := func(p *corev1.Pod) *corev1.PodCondition {
		t.Helper()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if len(p.Status.Conditions) == 0 || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
			t.Errorf("the kubelet's condition of %s is lost", p.Name)
		}
		if i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.ConditionPodData }); i >= 0 {
			return &p.Status.Conditions[i]
		}
		return nil
	}
	if c := condition(here); c == nil || c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(at.Time) {
		t.Errorf("of the one with one volume: %+v", c)
	}
	if c := condition(two); c == nil || c.Status != corev1.ConditionFalse || c.Reason != "Fetching" || c.Message != "1 of 2 volumes of data are mounted" {
		t.Errorf("of the one with two volumes: %+v", c)
	}
	if condition(elsewhere) != nil || condition(without) != nil {
		t.Error("it is believed of others")
	}
	// The same again costs no write; what is said is bounded, and nobody invents reasons.
	before := here.ResourceVersion
	if _, err := scribe.TakeData(t.Context(), "one", map[types.UID]v1alpha1.PodData{here.UID: mounted}); err != nil {
		t.Fatal(err)
	}
	if condition(here); here.ResourceVersion != before {
		t.Error("the same was written again")
	}
	strange := v1alpha1.PodData{Reason: "Boom", Message: strings.Repeat("x", 5000)}
	if _, err := scribe.TakeData(t.Context(), "one", map[types.UID]v1alpha1.PodData{two.UID: strange}); err != nil {
		t.Fatal(err)
	}
	if c := condition(two); c.Reason != "Fetching" || len(c.Message) > 1100 {
		t.Errorf("what makes no sense was written: %s, %d bytes", c.Reason, len(c.Message))
	}
	lost := v1alpha1.PodData{Reason: v1alpha1.DataLost, Message: "gone"}
	if _, err := scribe.TakeData(t.Context(), "one", map[types.UID]v1alpha1.PodData{two.UID: lost}); err != nil {
		t.Fatal(err)
	}
	if c := condition(two); c.Reason != "Lost" || c.Message != "gone" || !c.LastProbeTime.Time.Equal(now) {
		t.Errorf("%+v", c)
	}
}
