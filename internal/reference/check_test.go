package reference_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/reference"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func claim(name string, class *string, age time.Duration, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: class},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// there are the objects that exist.
func there() []client.Object {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	going := claim("going", nil, time.Hour, corev1.ClaimBound)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: now}, []string{"kubernetes.io/pvc-protection"}
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "token"}, Data: map[string][]byte{"key": nil}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "settings"}, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "p", VolumeBindingMode: &late},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Provisioner: "example.com/p"},
		claim("bound", new("early"), time.Hour, corev1.ClaimBound), claim("lost", new("early"), time.Hour, corev1.ClaimLost), going,
		claim("late", new("late"), time.Hour, corev1.ClaimPending), claim("fresh", new("early"), time.Second, corev1.ClaimPending),
		claim("slow", new("early"), time.Minute, corev1.ClaimPending), claim("classless", nil, time.Second, corev1.ClaimPending),
		claim("by-hand", new(""), time.Hour, corev1.ClaimPending), claim("typo", new("erly"), time.Second, corev1.ClaimPending),
	}
}

func uses(name string) corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}}
}

func volume(source corev1.VolumeSource) corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
}

func secretKey(name, key string, optional *bool) corev1.PodSpec {
	ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}
	return corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "T", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}}}}}
}

func from(source corev1.EnvFromSource) corev1.PodSpec {
	return corev1.PodSpec{InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{source}}}}
}

func TestWhatIsMissing(t *testing.T) {
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"nothing is named":    {},
		"a bound claim":       {spec: uses("bound")},
		"no such claim":       {spec: uses("absent"), want: "it names the claim absent, which is not there (namespace ml)"},
		"a lost claim":        {spec: uses("lost"), want: "its claim lost has lost its volume"},
		"a claim that goes":   {spec: uses("going"), want: "its claim going is being deleted"},
		"a claim that waits":  {spec: uses("late")},
		"a claim just made":   {spec: uses("fresh")},
		"a slow class":        {spec: uses("slow"), want: "its claim slow has no volume yet: storage class early (example.com/p) has not made one"},
		"no default class":    {spec: uses("classless"), want: "its claim classless has no volume: it names no storage class, and the cluster has no default one"},
		"a volume by hand":    {spec: uses("by-hand"), want: "its claim by-hand has no volume yet, and no storage class makes one: create a PersistentVolume for it"},
		"no such class":       {spec: uses("typo"), want: "its claim typo has no volume: there is no storage class erly; there are early, late"},
		"an ephemeral volume": {spec: volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("erly")}}}}), want: "its volume v has no volume: there is no storage class erly; there are early, late"},

		"a key":                 {spec: secretKey("token", "key", nil)},
		"no such key":           {spec: secretKey("token", "kee", nil), want: "it names the key kee of Secret token, which has no such key (namespace ml)"},
		"no such Secret":        {spec: secretKey("absent", "key", nil), want: "it names the Secret absent, which is not there (namespace ml)"},
		"an optional Secret":    {spec: secretKey("absent", "key", new(true))},
		"variables of a Secret": {spec: from(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("absent")}}), want: "it names the Secret absent, which is not there (namespace ml)"},
		"variables of settings": {spec: from(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("settings")}})},
		"a mounted Secret":      {spec: volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token", Items: []corev1.KeyToPath{{Key: "key"}, {Key: "kee"}}}}), want: "it names the key kee of Secret token, which has no such key (namespace ml)"},
		"a mounted ConfigMap":   {spec: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("settings"), Items: []corev1.KeyToPath{{Key: "a"}, {Key: "b"}}}})},
		"no such ConfigMap":     {spec: volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("absent")}}), want: "it names the ConfigMap absent, which is not there (namespace ml)"},
		"the Secret of a driver": {spec: volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", NodePublishSecretRef: &corev1.LocalObjectReference{Name: "absent"}}}),
			want: "it names the Secret absent, which is not there (namespace ml)"},
		"a token's certificates": {spec: volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("kube-root-ca.crt")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: named("token")}},
		}}})},
		"two at once": {spec: func() corev1.PodSpec {
			s := uses("absent")
			s.Volumes = append(s.Volumes, uses("absent").Volumes[0], uses("typo").Volumes[0])
			return s
		}(), want: "it names the claim absent, which is not there (namespace ml); its claim typo has no volume: there is no storage class erly; there are early, late"},
	} {
		t.Run(name, func(t *testing.T) {
			server := fake.NewClientBuilder().WithObjects(there()...).Build()
			c := reference.Checker{Reader: server, Live: server, Contents: true, Now: func() time.Time { return now }}
			got, err := c.Missing(t.Context(), "ml", &tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A cache that lags behind does not make a claim missing, and where Secrets may not be
// read they are not asked for.
func TestWhoIsAsked(t *testing.T) {
	behind := fake.NewClientBuilder().Build()
	live := fake.NewClientBuilder().WithObjects(there()...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, is := obj.(*corev1.Secret); is {
				return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	spec := uses("bound")
	spec.Containers = secretKey("absent", "key", nil).Containers
	c := reference.Checker{Reader: behind, Live: live}
	if got, err := c.Missing(t.Context(), "ml", &spec); err != nil || got != "" {
		t.Errorf("missing: %q, error %v", got, err)
	}
	c.Contents = true
	if got, err := c.Missing(t.Context(), "ml", &spec); err == nil {
		t.Errorf("a reader that may not answer: missing %q, no error", got)
	}
}
