//go:build e2e

package box

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// BenchmarkSubmit measures from the request that makes a job to the start of its program: on a Muster of
// one user, and on one that several share, by the socket and as another user. The jobs of both take turns.
//
//	go test -tags e2e -run '^$' -bench Submit -benchtime 30x ./test/e2e/box
func BenchmarkSubmit(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("only root makes users and starts a Muster for all of them")
	}
	several := &box{ben: newPerson(b, "muster-bench-ben")}
	several.install(b)
	one := begin(b)
	b.Setenv("MUSTER_SOCKET", filepath.Join(shared(b), "run", "muster.sock"))
	several.Muster = begin(b, "--system")
	several.as(b, several.ben, "get") // makes the namespace
	var alone, together []time.Duration
	for i := range b.N {
		alone = append(alone, fromSubmit(b, filepath.Join(shared(b), "stamp"), func(job *v1alpha1.TrainingJob) time.Time {
			job.Name, job.Namespace = fmt.Sprintf("one-%d", i), "default"
			at := time.Now()
			must(b, one.Client.Create(b.Context(), job))
			return at
		}))
		together = append(together, fromSubmit(b, filepath.Join(several.ben.home, fmt.Sprintf("stamp-%d", i)), func(job *v1alpha1.TrainingJob) time.Time {
			job.Name, job.Namespace = fmt.Sprintf("several-%d", i), several.ben.namespace()
			job.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob"}
			text, err := json.Marshal(job)
			must(b, err)
			r := several.attempt(b, several.ben, "submit", "/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+job.Namespace+"/trainingjobs", string(text))
			n, err := strconv.ParseInt(strings.TrimSpace(r.Stdout), 10, 64)
			if err != nil {
				b.Fatalf("%+v", r)
			}
			return time.Unix(0, n)
		}))
	}
	for of, took := range map[string][]time.Duration{"one-user": alone, "of-several": together} {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, of+"-p50-ms")
		b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, of+"-p90-ms")
	}
}

// begin starts a Muster until the benchmark ends.
func begin(b *testing.B, flags ...string) *harness.Muster {
	b.Helper()
	m, err := harness.Up(b.Context(), filepath.Join(shared(b), "home"), append(flags, "--tier", "isolated", "--simulate-gpus", "4xA100")...)
	must(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 2*time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			b.Error(err)
		}
	})
	return m
}

// fromSubmit returns the time from submit's to the start of the job's program, which writes it to a file.
func fromSubmit(b *testing.B, file string, submit func(*v1alpha1.TrainingJob) time.Time) time.Duration {
	b.Helper()
	gpus := resource.MustParse("1")
	job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{
		Name: "worker", GPUs: &gpus, Command: []string{"sh", "-c", `date +%s%N > "$0".new && mv "$0".new "$0"`, file},
	}}}}
	at := submit(job)
	var took time.Duration
	harness.Eventually(b, time.Minute, "the start of "+job.Name, func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		took = time.Unix(0, n).Sub(at)
		return err
	})
	return took
}

// submit makes a job by the socket, over a connection that is open already, and prints when it began.
func submit(path, job string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", os.Getenv("MUSTER_SOCKET"))
	}}}
	ask := func(method string, body []byte) error {
		request, err := http.NewRequestWithContext(context.Background(), method, "http://muster"+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode/100 != 2 {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	if err := ask(http.MethodGet, nil); err != nil {
		return err
	}
	began := time.Now()
	if err := ask(http.MethodPost, []byte(job)); err != nil {
		return err
	}
	fmt.Println(began.UnixNano())
	return nil
}
