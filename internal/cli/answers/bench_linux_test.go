package answers_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/visibility"
)

// cpu is the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkAnswers has each answer for 1,000 jobs of ten users: on a machine with 8 GPUs, for
// which all others wait, and on 125 such nodes. The target is 50 ms for each answer; the
// metric cpu-ms/op does not depend on what else the machine computes.
func BenchmarkAnswers(b *testing.B) {
	const jobs, gpus = 1000, 8
	for shape, nodes := range map[string]int{"machine": 1, "125 nodes": jobs / gpus} {
		objects := []client.Object{&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}}
		for i := range nodes {
			objects = append(objects, box(b, fmt.Sprintf("box-%d", i), gpus)...)
		}
		for i := range jobs {
			node, gpu := "", ""
			if i < nodes*gpus {
				node, gpu = fmt.Sprintf("box-%d", i/gpus), fmt.Sprintf("GPU-%d", i%gpus)
			}
			objects = append(objects, work(fmt.Sprintf("u-%d", 1002+i%10), fmt.Sprintf("job-%d", i), "covert", "vision", node, gpu)...)
		}
		objects = append(objects, work("u-1001", "waits", "own", "vision", "", "")...)
		api := reader(b, objects)
		a := answers.New(answers.Options{Cache: api, API: api, Logins: func(uid uint32) string { return fmt.Sprintf("user%d", uid) }})
		for name, ask := range asks(a, "u-1001", "waits", visibility.Rule{Own: "u-1001", Login: "user1001", ShowUsers: true}) {
			b.Run(shape+"/"+name, func(b *testing.B) {
				before := cpu(b)
				for b.Loop() {
					found, err := ask(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if _, err := json.Marshal(found); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
