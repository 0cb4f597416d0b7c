package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/dataset"
)

// The pipelines of the rows: trivial datums, a program for each; and four stages in a
// row, of which a commit concerns none.
const (
	manyDatums = `
metadata: {name: many}
spec:
  stages:
  - name: copy
    input: {dataset: things, glob: "/*"}
    command: [cp, -r, $(MUSTER_INPUT_THINGS)/., $(MUSTER_OUTPUT)]
    parallelism: {max: 2}
`
	fourStages = `
metadata: {name: four}
spec:
  stages:
  - {name: a, input: {dataset: four, glob: "/*.txt"}, command: [cp, -r, $(MUSTER_INPUT_FOUR)/., $(MUSTER_OUTPUT)]}
  - {name: b, input: {stage: a, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_A)/., $(MUSTER_OUTPUT)]}
  - {name: c, input: {stage: b, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_B)/., $(MUSTER_OUTPUT)]}
  - {name: d, input: {stage: c, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_C)/., $(MUSTER_OUTPUT)]}
`
)

// pipelines: runs end to end, by an embedded Muster.
func (b *bench) pipelines(ctx context.Context) (err error) {
	if b.muster == "" {
		if b.only != "" {
			return errors.New("give -muster PROGRAM: runs are measured end to end")
		}
		return nil
	}
	m := &embedded{program: b.muster, home: b.path("muster")}
	defer func() { err = errors.Join(err, m.down()) }()
	if err := m.up(ctx); err != nil {
		return err
	}
	if err := m.apply(ctx, manyDatums); err != nil {
		return err
	}
	n := max(1, int(10_000*b.scale))
	var all []measured
	for run := range b.runs {
		one, err := m.measure(ctx, "many", func() error {
			if run == 0 {
				return m.put(ctx, "things", func(i int) (string, string, bool) { return fmt.Sprintf("%06d", i), fmt.Sprint(i), i < n })
			}
			// Another variable: nothing has a result.
			return m.apply(ctx, strings.Replace(manyDatums, "parallelism", fmt.Sprintf("env: [{name: RUN, value: %q}]\n    parallelism", fmt.Sprint(run)), 1))
		})
		if err != nil {
			return err
		}
		if one.Work != int64(n) {
			return fmt.Errorf("%d of %d datums were computed", one.Work, n)
		}
		all = append(all, one)
	}
	took := median(all).Seconds
	b.say(fmt.Sprintf("%d trivial datums, end to end", n), fmt.Sprintf("%.1f s, %.0f a second", took, float64(n)/took), "-", ">= 500 a second", float64(n)/took >= 500)

	if err := m.apply(ctx, fourStages); err != nil {
		return err
	}
	first := func(name string) func(int) (string, string, bool) {
		return func(i int) (string, string, bool) { return name, name, i < 1 }
	}
	if _, err := m.measure(ctx, "four", func() error { return m.put(ctx, "four", first("a.txt")) }); err != nil {
		return err
	}
	all = nil
	for run := range max(5, b.runs) {
		one, err := m.measure(ctx, "four", func() error { return m.put(ctx, "four", first(fmt.Sprint("other-", run))) })
		if err != nil {
			return err
		}
		if one.Work != 0 {
			return fmt.Errorf("%d datums were computed", one.Work)
		}
		all = append(all, one)
	}
	took = median(all).Seconds
	b.say("a no-op of 4 stages, from the commit to the end of the run", fmt.Sprintf("%.0f ms", took*1000), "-", "<= 100 ms", took <= 0.1)
	return nil
}

// embedded is an embedded Muster.
type embedded struct {
	program, home string
	store         *data.Store
	server        client.WithWatch
}

func (m *embedded) do(ctx context.Context, in string, args ...string) error {
	cmd := exec.CommandContext(ctx, m.program, append([]string{"--home", m.home}, args...)...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("muster %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (m *embedded) up(ctx context.Context) error {
	if err := m.do(ctx, "", "up", "--detach"); err != nil {
		return err
	}
	for _, name := range []string{"things", "four"} {
		if err := m.do(ctx, "", "data", "create", name); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.home, "kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if m.server, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	bytes, err := backend.OpenFolder(filepath.Join(m.home, "data", "store"))
	if err != nil {
		return err
	}
	m.store, err = data.Open(ctx, data.Options{Backend: bytes})
	return err
}

func (m *embedded) down() error {
	var err error
	if m.store != nil {
		err = m.store.Close()
	}
	return errors.Join(err, m.do(context.Background(), "", "down"))
}

func (m *embedded) apply(ctx context.Context, text string) error {
	return m.do(ctx, text, "pipeline", "apply", "-f", "-")
}

// put commits files, until there are no more.
func (m *embedded) put(ctx context.Context, name string, file func(i int) (path, text string, ok bool)) error {
	d := m.store.Dataset(&dataset.Heads{Client: m.server, Namespace: "default", Name: name})
	in, out := io.Pipe()
	go func() {
		w := tar.NewWriter(out)
		var err error
		for i := 0; err == nil; i++ {
			path, text, ok := file(i)
			if !ok {
				err = w.Close()
				break
			}
			if err = w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err == nil {
				_, err = io.WriteString(w, text)
			}
		}
		out.CloseWithError(err)
	}()
	_, err := d.Put(ctx, "main", data.Tar(in), data.PutOptions{})
	return errors.Join(err, in.Close())
}

// measure is the time from the end of what starts a run of a pipeline to the end of
// the run.
func (m *embedded) measure(ctx context.Context, pipeline string, start func() error) (measured, error) {
	events, err := m.server.Watch(ctx, &v1alpha1.PipelineRunList{}, client.InNamespace("default"))
	if err != nil {
		return measured{}, err
	}
	defer events.Stop()
	known := &v1alpha1.PipelineRunList{}
	if err := m.server.List(ctx, known, client.InNamespace("default")); err != nil {
		return measured{}, err
	}
	ended := map[string]bool{}
	for i := range known.Items {
		phase := known.Items[i].Status.Phase
		ended[known.Items[i].Name] = phase == v1alpha1.RunSucceeded || phase == v1alpha1.RunFailed
	}
	if err := start(); err != nil {
		return measured{}, err
	}
	begun := time.Now()
	for event := range events.ResultChan() {
		run, ok := event.Object.(*v1alpha1.PipelineRun)
		if !ok || run.Spec.Pipeline != pipeline || ended[run.Name] {
			continue
		}
		switch run.Status.Phase {
		case v1alpha1.RunFailed:
			return measured{}, fmt.Errorf("run %s failed: %s", run.Name, run.Status.Message)
		case v1alpha1.RunSucceeded:
			one := measured{Seconds: time.Since(begun).Seconds()}
			for i := range run.Status.Stages {
				one.Work += run.Status.Stages[i].Datums.Computed
			}
			return one, nil
		}
	}
	return measured{}, errors.Join(errors.New("the server closed the watch"), ctx.Err())
}
