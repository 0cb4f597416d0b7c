package run

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// A server that has just started answers, and takes no jobs until its policies
// know them: it is waited for, in words, and not for ever.
func TestAServerThatTakesNoJobsYet(t *testing.T) {
	starting := apierrors.NewServiceUnavailable("Resource kind muster.dev/v1alpha1, Kind=TrainingJob not found. There can be a delay")
	for name, c := range map[string]struct {
		refusals int
		with     error
		within   time.Duration
		says     string // of the error
		waits    bool
	}{
		"one that has started":           {0, nil, time.Minute, "", false},
		"one that has just started":      {1, starting, time.Minute, "", true},
		"one that is not done starting":  {1000, starting, time.Millisecond, "has taken no jobs for 1ms", true},
		"one that refuses the job at it": {1000, apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("trainingjobs").GroupResource(), "mnist", nil), time.Minute, "forbidden", false},
	} {
		t.Run(name, func(t *testing.T) {
			left := c.refusals
			server := interceptor.NewClient(sample.World(t), interceptor.Funcs{
				Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if left > 0 {
						left--
						return c.with
					}
					return w.Create(ctx, o, opts...)
				},
			})
			errs := &bytes.Buffer{}
			o := &options{factory: connection.New(terminal.Streams{Err: errs, NoColor: true}, "test")}
			job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist"}}
			err := o.submit(t.Context(), server, job, c.within)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the answer is %v, want %q", err, c.says)
			}
			if said := strings.Count(errs.String(), "takes no jobs yet; waiting"); said > 1 || (said == 1) != c.waits {
				t.Errorf("it says %q", errs)
			}
			if there := server.Get(t.Context(), client.ObjectKeyFromObject(job), job) == nil; there != (c.says == "") {
				t.Errorf("it is there: %v", there)
			}
		})
	}
}
