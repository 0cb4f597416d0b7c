//go:build embedded

package doctor_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/doctor"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestDoctorOnACluster asks before and after an installation.
func TestDoctorOnACluster(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Verbs = append(server.Verbs, doctor.New)
	server.Run(t, []rehearsal.Step{
		{Args: "doctor", Code: 1, Says: "missing: datasets.muster.dev, gangs.muster.dev"},
		{Args: "install --no-wait", Says: "is applied"},
		{Args: "doctor", Code: 1, Says: "0 of 2 managers ready"},
		{Args: "doctor -o json", Code: 1, Says: `"check": "clocks"`},
		{Args: "doctor", Code: 1, Says: "as this program knows them"},
		{Args: "doctor", Code: 1, Says: "no node has GPUs"},
		{Args: "install --no-wait --set data.gateway.enabled=true,data.s3.endpoint=http://127.0.0.1:1,data.s3.bucket=b,data.s3.secret=s", Says: "is applied"},
		{Args: "doctor", Code: 1, Says: "no replica of the manager is behind muster-gateway.muster-system.svc:6480"},
	})
}

// TestDoctorNamesTokensWithoutEnd has tokens of a user's account and of another one; only
// those in namespaces of users are named.
func TestDoctorNamesTokensWithoutEnd(t *testing.T) {
	server := rehearsal.StartCluster(t)
	server.Verbs = append(server.Verbs, doctor.New)
	for _, name := range []string{"ada", "others"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "ada" {
			namespace.Labels = map[string]string{v1alpha1.LabelUser: name}
		}
		meta := metav1.ObjectMeta{Namespace: name, Name: name}
		account := &corev1.ServiceAccount{ObjectMeta: meta}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "forever", Annotations: map[string]string{corev1.ServiceAccountNameKey: name}}, Type: corev1.SecretTypeServiceAccountToken}
		plain := &corev1.Secret{ObjectMeta: meta}
		for _, object := range []client.Object{namespace, account, secret, plain} {
			if err := server.Client.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	server.Run(t, []rehearsal.Step{
		{Args: "doctor", Code: 1, Says: "-> kubectl -n ada delete secret forever: the token then ends at once"},
		{Args: "doctor -o json", Code: 1, Says: "Secret forever of namespace ada has a token of service account ada that never ends"},
	})
	if err := server.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: "forever"}}); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{{Args: "doctor", Code: 1, Says: "no Secret in the namespaces of 1 user has a token without end"}})
}
