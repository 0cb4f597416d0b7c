//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// podProgram asks the API server who it is, by the token of its ServiceAccount, and puts and gets
// an object at the S3 gateway, with the key in its variables.
const podProgram = `
import datetime, hashlib, hmac, json, os, ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
api = "https://%s:%s" % (os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])
trust = ssl.create_default_context(cafile=folder + "ca.crt")
def ask(address, path, body=None):
    headers = {"Authorization": "Bearer " + open(folder + "token").read(), "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, body, headers), context=trust, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        return json.load(e)
review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
for address in (api, "https://kubernetes.default.svc"):
    print("I am", ask(address, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]["username"], flush=True)
print("secrets:", ask(api, "/api/v1/namespaces/default/secrets")["reason"], flush=True)

def s3(method, path, body=b"", key=os.environ["AWS_ACCESS_KEY_ID"], secret=os.environ["AWS_SECRET_ACCESS_KEY"]):
    host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope, digest = now[:8] + "/us-east-1/s3/aws4_request", hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = "\n".join([method, path, "", "host:" + host, "x-amz-content-sha256:" + digest, "x-amz-date:" + now, "", names, digest])
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signing = ("AWS4" + secret).encode()
    for part in scope.split("/") + [text]:
        signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
    headers = {"X-Amz-Date": now, "X-Amz-Content-Sha256": digest,
        "Authorization": "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (key, scope, names, signing.hex())}
    try:
        with urllib.request.urlopen(urllib.request.Request("http://" + host + path, body or None, headers, method=method), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
print("put:", s3("PUT", "/spout/main/from-a-pod", b"a commit by a pod")[0], flush=True)
print("get:", s3("GET", "/spout/main/from-a-pod")[1].decode(), flush=True)
print("a wrong secret:", s3("GET", "/spout/main/from-a-pod", secret="no")[0], flush=True)
`

// TestAPodReachesTheAPIAndS3: the advice in the refusal of a Pachyderm spout works from a pod of
// the isolated tier, whose loopback is its own.
func TestAPodReachesTheAPIAndS3(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "spout"), 0)
	r := m.Run(ctx, "-n", ns, "data", "key", "create", "-o", "json")
	expect(t, r, 0)
	var key struct{ AccessKeyID, SecretAccessKey, Region, PodEndpoint string }
	if err := json.Unmarshal([]byte(r.Stdout), &key); err != nil {
		t.Fatal(err)
	}
	if key.PodEndpoint != "http://muster-gateway.muster-system.svc:6480" {
		t.Errorf("pods find the gateway at %q", key.PodEndpoint)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s3"}, StringData: map[string]string{
		"AWS_ACCESS_KEY_ID": key.AccessKeyID, "AWS_SECRET_ACCESS_KEY": key.SecretAccessKey, "AWS_ENDPOINT_URL": key.PodEndpoint,
	}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spout"},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "main", Image: "muster.dev/host", Command: []string{"python3", "-c", podProgram},
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s3"}}}},
		}}},
	}
	for _, object := range []client.Object{secret, pod} {
		if err := m.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, time.Minute, "the pod ends", func() error {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return errors.New(string(pod.Status.Phase))
		}
		return nil
	})
	said := m.Kubectl(ctx, "", "-n", ns, "logs", "spout").Stdout
	who := "I am system:serviceaccount:" + ns + ":default"
	for _, want := range []string{who + "\n" + who, "secrets: Forbidden", "put: 200", "get: a commit by a pod", "a wrong secret: 403"} {
		if !strings.Contains(said, want) {
			t.Errorf("the pod does not say %q:\n%s", want, said)
		}
	}
	expect(t, m.Run(ctx, "-n", ns, "data", "cat", "spout:/from-a-pod"), 0, "a commit by a pod")
}
