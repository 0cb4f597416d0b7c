package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// asks gives the first container limits of these amounts; "" leaves one out.
func asks(milli, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		limits := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{v1alpha1.ResourceGPUMilli: milli, v1alpha1.ResourceGPUMemory: memory} {
			if text != "" {
				limits[name] = resource.MustParse(text)
			}
		}
		p.Spec.Containers[0].Resources.Limits = limits
	}
}

// given is what the scheduler wrote.
func given(uuid, share string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationGPUs: uuid, v1alpha1.AnnotationGPUShare: share}
	}
}

func TestShares(t *testing.T) {
	facts := plain()
	facts.GPUs = map[string]GPU{
		"free":    {MemoryMiB: 40960},
		"half":    {MemoryMiB: 40960, Use: Use{Holders: []string{"pod x/b", "pod x/a"}, Share: Share{500, 20480}}},
		"whole":   {MemoryMiB: 40960, Use: Use{Holders: []string{"pod x/w"}, Share: Share{Milli: 1000}}},
		"unknown": {},
	}
	two := func(p *corev1.Pod) {
		second := *p.Spec.Containers[0].DeepCopy()
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, second)
	}
	for _, c := range []struct {
		name  string
		edits []func(*corev1.Pod)
		// says is what the refusal says; "" means admitted. passing is whether
		// it may pass.
		says    string
		passing bool
	}{
		{"a free GPU", []func(*corev1.Pod){asks("250", ""), given("free", `{"milli":250,"memoryMiB":10240}`)}, "", false},
		{"beside others", []func(*corev1.Pod){asks("500", ""), given("half", `{"milli":500,"memoryMiB":20480}`)}, "", false},
		{"memory alone", []func(*corev1.Pod){asks("", "8Gi"), given("half", `{"milli":200,"memoryMiB":8192}`)}, "", false},
		{"memory of unknown size", []func(*corev1.Pod){asks("250", ""), given("unknown", `{"milli":250}`)}, "", false},
		{"too little left", []func(*corev1.Pod){asks("501", ""), given("half", `{"milli":501,"memoryMiB":1}`)},
			"GPU half has 500m (20480 MiB) left, and the pod was given 501m (1 MiB); it is held by pod x/a and pod x/b", true},
		{"too little memory left", []func(*corev1.Pod){asks("100", ""), given("half", `{"milli":100,"memoryMiB":20481}`)}, "GPU half has 500m", true},
		{"wholly another's", []func(*corev1.Pod){asks("1", ""), given("whole", `{"milli":1,"memoryMiB":40}`)}, "held by pod x/w", true},
		{"the whole of a shared one", []func(*corev1.Pod){gpus("half", "1")}, "GPU half is held by pod x/a and pod x/b", true},
		{"nothing given", []func(*corev1.Pod){asks("250", "")}, "leave nodeName empty", false},
		{"less given than asked for", []func(*corev1.Pod){asks("250", "8Gi"), given("free", `{"milli":250,"memoryMiB":8191}`)}, "it asks for 250m and 8192 MiB", false},
		{"given and not asked for", []func(*corev1.Pod){given("free", `{"milli":250}`)}, "none of its containers asks", false},
		{"two GPUs", []func(*corev1.Pod){asks("250", ""), given("free,half", `{"milli":250,"memoryMiB":1}`)}, "names 2 GPUs", false},
		{"not readable", []func(*corev1.Pod){asks("250", ""), given("free", `half`)}, "cannot be read", false},
		{"no part", []func(*corev1.Pod){asks("250", ""), given("free", `{"milli":2000}`)}, "are no part of a GPU", false},
		{"one and a half", []func(*corev1.Pod){asks("1500", ""), given("free", `{"milli":1000}`)}, "a share is from 1 to 999", false},
		{"whole and part", []func(*corev1.Pod){asks("250", ""), given("free", `{"milli":250}`), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[v1alpha1.ResourceGPU] = resource.MustParse("1")
		}}, "give one or the other", false},
		{"two containers", []func(*corev1.Pod){asks("250", ""), given("free", `{"milli":250}`), two}, "a second container", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Admit(pod(c.edits...), facts)
			switch {
			case c.says == "" && r != nil:
				t.Errorf("refused: %v", r)
			case c.says != "" && (r == nil || !strings.Contains(r.Error(), c.says) || r.Passing != c.passing):
				t.Errorf("got %+v; want %q, passing %t", r, c.says, c.passing)
			}
		})
	}
}

// The container that asks for the part sees the GPU, and no other does.
func TestAssignAShare(t *testing.T) {
	p := pod(asks("250", ""), given("free", `{"milli":250}`), func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second"})
	})
	if diff := cmp.Diff(map[string][]string{"main": {"free"}}, Assign(p)); diff != "" {
		t.Error(diff)
	}
}
