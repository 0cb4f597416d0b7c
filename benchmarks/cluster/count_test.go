//go:build cluster

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The counter is held against those who made and bound the pods, at the full
// rate: each pod is counted after it was asked for and before the answer was
// read, and the last of all right when the last answer was.
func TestCounterIsExact(t *testing.T) {
	const n = 2000
	b := &bench{scale: 1, began: time.Now()}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err := b.with(ctx, planeOptions{}, func(p *plane) error {
		pods := p.core.CoreV1().Pods(namespace)
		t.Run("made with their nodes", func(t *testing.T) {
			p.countsAsAnswered(ctx, t, n, created, func(i int) (string, error) {
				pod := member(fmt.Sprintf("counted-%d", i), 1)
				pod.Spec.NodeName = nodeName(i % 100)
				_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
				return pod.Name, err
			})
		})
		err := each(n, func(i int) error {
			_, err := pods.Create(ctx, member(fmt.Sprintf("bound-%d", i), 1), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		t.Run("bound", func(t *testing.T) {
			p.countsAsAnswered(ctx, t, n, bound, func(i int) (string, error) {
				name := fmt.Sprintf("bound-%d", i)
				return name, pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName(i % 100)}}, metav1.CreateOptions{})
			})
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// countsAsAnswered writes for n pods and compares when each was answered with
// when it was counted.
func (p *plane) countsAsAnswered(ctx context.Context, t *testing.T, n int, is func(*answer) bool, write func(int) (string, error)) {
	c, err := p.count()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked, answered := map[string]time.Time{}, map[string]time.Time{}
	written := make(chan error, 1)
	go func() {
		written <- each(n, func(i int) error {
			began := time.Now()
			name, err := write(i)
			mu.Lock()
			defer mu.Unlock()
			asked[name], answered[name] = began, time.Now()
			return err
		})
	}()
	last, err := c.until(ctx, n, is)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	var off []time.Duration
	var lastAnswer time.Time
	for name, at := range answered {
		off = append(off, at.Sub(c.seen[name]))
		if c.seen[name].Before(asked[name]) || c.seen[name].After(at) {
			t.Errorf("%s was asked for at %v and answered at %v, but counted at %v", name, asked[name], at, c.seen[name])
		}
		if at.After(lastAnswer) {
			lastAnswer = at
		}
	}
	slices.Sort(off)
	t.Logf("%d pods; before its answer was read each was counted: median %v, 99 %% %v; the last of all %v", n, off[n/2], off[n*99/100], lastAnswer.Sub(last))
	if len(c.seen) != n || len(answered) != n {
		t.Errorf("%d pods were written and %d counted, of %d", len(answered), len(c.seen), n)
	}
	if end := lastAnswer.Sub(last); end < 0 || end > 10*time.Millisecond {
		t.Errorf("the last pod was counted %v before its answer; 0 to 10 ms are allowed", end)
	}
}
