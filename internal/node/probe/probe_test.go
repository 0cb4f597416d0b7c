package probe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// now fires at once.
func now(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

func TestWatchReportsChanges(t *testing.T) {
	cases := []struct {
		name     string
		probe    corev1.Probe
		answers  []int // exit codes
		verdicts []bool
	}{
		{"first success counts", corev1.Probe{FailureThreshold: 3}, []int{0, 0}, []bool{true}},
		{"three failures", corev1.Probe{FailureThreshold: 3}, []int{1, 1, 1, 1}, []bool{false}},
		{"interrupted failures", corev1.Probe{FailureThreshold: 2}, []int{0, 1, 0, 1, 1}, []bool{true, false}},
		{"two successes", corev1.Probe{FailureThreshold: 1, SuccessThreshold: 2}, []int{1, 0, 1, 0, 0}, []bool{false, true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.probe.Exec = &corev1.ExecAction{Command: []string{"x"}}
			asked := 0
			target := Target{Exec: func(context.Context, []string) (int, string, error) {
				if asked == len(c.answers) {
					cancel()
					return 0, "", ctx.Err()
				}
				asked++
				return c.answers[asked-1], "why", nil
			}}
			var got []bool
			Watch(ctx, &c.probe, target, now, func(v Verdict) bool {
				got = append(got, v.Healthy)
				return true
			})
			if diff := cmp.Diff(c.verdicts, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ok" && r.Host == "named" && r.Header.Get("A") == "b" && r.URL.RawQuery == "q=1":
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/nowhere", http.StatusFound)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	others := httptest.NewServer(http.NotFoundHandler())
	defer others.Close()
	other := int32(others.Listener.Addr().(*net.TCPAddr).Port)
	at := intstr.Parse(port)
	target := Target{Host: host, Check: func(port int32) error {
		if port == other {
			return errors.New("it is another's")
		}
		return nil
	}, Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: at.IntVal}}, Exec: func(ctx context.Context, argv []string) (int, string, error) {
		switch argv[0] {
		case "hang":
			<-ctx.Done()
			return 0, "", ctx.Err()
		case "bad":
			return 3, "no", nil
		case "error":
			return 0, "", errors.New("broken")
		}
		return 0, "", nil
	}}
	get := func(path string, port intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port, HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "named"}, {Name: "A", Value: "b"}}}}
	}
	run := func(word string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{word}}}
	}
	cases := []struct {
		name    string
		handler corev1.ProbeHandler
		well    bool
	}{
		{"http", get("/ok?q=1", at), true},
		{"http by name", get("ok?q=1", intstr.FromString("web")), true},
		{"http redirect", get("/moved", at), true},
		{"http error", get("/bad", at), false},
		{"http unknown port", get("/ok", intstr.FromString("none")), false},
		{"tcp", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: at}}, true},
		{"tcp refused", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}, false},
		{"another host", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: at, Host: "localhost."}}, false},
		{"http of another host", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/moved", Port: at, Host: "127.0.0.2"}}, false},
		{"its own host", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: at, Host: "localhost"}}, true},
		{"a port of others", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(other)}}, false},
		{"exec", run("ok"), true},
		{"exec bad", run("bad"), false},
		{"exec error", run("error"), false},
		{"exec hangs", run("hang"), false},
		{"nothing", corev1.ProbeHandler{}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := Ask(t.Context(), &corev1.Probe{ProbeHandler: c.handler}, target); (err == nil) != c.well {
				t.Errorf("got %v", err)
			}
		})
	}
}
