package transfer

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/pipeline"
)

var today = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// muster is one Muster's store, with its results.
type muster struct {
	store   *data.Store
	results *data.Dataset
	states  *data.Dataset
}

func newMuster(t testing.TB) *muster {
	t.Helper()
	s, err := data.Open(t.Context(), data.Options{Backend: &backend.Memory{}, Workers: 1})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &muster{s, s.Dataset(&ref.Memory{}), s.Dataset(&ref.Memory{})}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member is one of an archive: a file, or a link where target is given.
type member struct {
	name, content, target string
	mode                  int64
}

func archive(t testing.TB, members []member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: int64(len(m.content)), Mode: max(m.mode, 0o644)}
		if m.target != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, m.target
		}
		must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, m.content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func put(t testing.TB, d *data.Dataset, members ...member) data.PutResult {
	t.Helper()
	r, err := d.Put(t.Context(), data.DefaultBranch, data.Tar(bytes.NewReader(archive(t, members))), data.PutOptions{})
	must(t, err)
	return r
}

// held is everything that is in a branch, path -> what it is; nothing where it is not
// there.
func held(t testing.TB, d *data.Dataset) map[string]string {
	t.Helper()
	all := map[string]string{}
	v, err := d.At(t.Context(), data.DefaultBranch)
	if errors.Is(err, fs.ErrNotExist) {
		return all
	}
	must(t, err)
	must(t, v.Walk(t.Context(), "", func(e data.Entry) error {
		if e.Target != "" {
			all[e.Path] = "-> " + e.Target
			return nil
		}
		f, err := v.Open(t.Context(), e.Path)
		must(t, err)
		content, err := io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
		all[e.Path] = fmt.Sprintf("%v %s", e.Executable, content)
		return nil
	}))
	return all
}

// recipe is that of a stage whose argument is given.
func recipe(t testing.TB, argument string) *pipeline.Recipe {
	t.Helper()
	g, err := pipeline.Parse("digits", &v1alpha1.PipelineSpec{Stages: []v1alpha1.Stage{{
		Name: "train", Command: []string{"train"}, Args: []string{argument},
		Input: v1alpha1.Input{InputSource: v1alpha1.InputSource{Dataset: "images", Glob: "/*"}},
	}}})
	must(t, err)
	r, err := pipeline.NewRecipe(g.Stage("train"), pipeline.Resolved{})
	must(t, err)
	return r
}

// given names the files of a datum.
func given(name string) (id digest.ID) {
	copy(id[:], name+strings.Repeat("-", len(id)))
	return id
}

// result is one as a run records it, under a key or, where that is zero, under its own.
func result(t testing.TB, r *pipeline.Recipe, datum string, at digest.ID, exit int, files ...member) []member {
	t.Helper()
	record := pipeline.Record{Key: at, Recipe: r.ID, Files: given(datum), Datum: datum, Exit: exit}
	if at.IsZero() {
		record.Key = pipeline.Key(r.ID, record.Files)
	}
	text, err := record.Encode()
	must(t, err)
	encoded, err := r.Encode()
	must(t, err)
	folder := pipeline.ResultPath(record.Key) + "/"
	all := []member{{name: pipeline.RecipePath(r.ID), content: string(encoded)}, {name: folder + pipeline.RecordFile, content: string(text)}}
	for _, f := range files {
		f.name = folder + f.name
		all = append(all, f)
	}
	return all
}

// state is that of a stage whose last run had these datums; again are the keys of those
// whose results are others than the recipe's own.
func (m *muster) state(t testing.TB, r *pipeline.Recipe, datums []string, again map[string]digest.ID) *pipeline.State {
	t.Helper()
	var all []member
	for _, name := range datums {
		files := given(name)
		target := base64.RawURLEncoding.EncodeToString(files[:])
		if key, ok := again[name]; ok {
			target += "." + base64.RawURLEncoding.EncodeToString(key[:])
		}
		all = append(all, member{name: "all/" + name, target: target})
	}
	return &pipeline.State{Recipe: r.ID, Datums: put(t, m.states, all...).Commit.Tree}
}

func (m *muster) export(t testing.TB, states map[string]*pipeline.State) ([]byte, Count) {
	t.Helper()
	v, err := m.results.At(t.Context(), data.DefaultBranch)
	must(t, err)
	var b bytes.Buffer
	count, err := Export(t.Context(), &b, Exporting{Pipeline: "digits", States: states, Results: v, Trees: m.store.Trees(), At: today})
	must(t, err)
	return b.Bytes(), count
}

func (m *muster) take(t testing.TB, archive []byte) (Manifest, Count, error) {
	t.Helper()
	return Import(t.Context(), bytes.NewReader(archive), Importing{Results: m.results, Branch: data.DefaultBranch, Trees: m.store.Trees(), At: today})
}

// filled is a Muster with results of all kinds, and the state that has them.
func filled(t testing.TB) (*muster, *pipeline.Recipe, *pipeline.State) {
	t.Helper()
	m, r := newMuster(t), recipe(t, "--epochs=3")
	var members []member
	members = append(members, result(t, r, "a", digest.ID{}, 0, member{name: "log", content: "said\n"}, member{name: "out/run", content: "#!", mode: 0o755},
		member{name: "out/link", target: "deep/b"}, member{name: "out/deep/b", content: "bytes"})...)
	members = append(members, result(t, r, "b", digest.ID{}, 0)...)
	members = append(members, result(t, r, "bad", digest.ID{}, 1, member{name: "log", content: "no\n"})...)
	members = append(members, result(t, r, "anew", given("another key"), 0, member{name: "out/x", content: "second"})...)
	put(t, m.results, members...)
	return m, r, m.state(t, r, []string{"a", "anew", "b", "bad", "gone"}, map[string]digest.ID{"anew": given("another key")})
}

// TestThereAndBack: what a stage has is found in another Muster by what it was computed
// from, with all that belongs to it. What is there already is not taken.
func TestThereAndBack(t *testing.T) {
	here, r, state := filled(t)
	sent, count := here.export(t, map[string]*pipeline.State{"train": state, "never": nil, "impure": {Recipe: r.ID, Impure: true}})
	if count.Results != 3 || count.Files != 5 {
		t.Errorf("exported %+v", count)
	}
	there := newMuster(t)
	m, count, err := there.take(t, sent)
	if err != nil || count.Results != 3 || count.There != 0 || count.Files != 5 || m.Pipeline != "digits" {
		t.Fatalf("%+v %+v %v", m, count, err)
	}
	got := held(t, there.results)
	want := map[string]string{pipeline.BroughtPath("digits", "train"): "false " + r.ID.String()}
	add := func(members []member) {
		for _, m := range members {
			want[m.name] = fmt.Sprintf("%v %s", m.mode&0o100 != 0, m.content)
			if m.target != "" {
				want[m.name] = "-> " + m.target
			}
		}
	}
	add(result(t, r, "a", digest.ID{}, 0, member{name: "log", content: "said\n"}, member{name: "out/run", content: "#!", mode: 0o755},
		member{name: "out/link", target: "deep/b"}, member{name: "out/deep/b", content: "bytes"}))
	add(result(t, r, "b", digest.ID{}, 0))
	add(result(t, r, "anew", digest.ID{}, 0, member{name: "out/x", content: "second"}))
	for _, datum := range []string{"a", "b", "anew"} {
		want[pipeline.UsedPath(today, pipeline.Key(r.ID, given(datum)))] = "false "
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("brought (-want +got)\n%s", d)
	}
	if _, count, err = there.take(t, sent); err != nil || count.Results != 0 || count.There != 3 || count.Files != 0 {
		t.Errorf("a second time: %+v %v", count, err)
	}
	if d := cmp.Diff(want, held(t, there.results)); d != "" {
		t.Errorf("a second time (-want +got)\n%s", d)
	}
}

// TestBrokenArchives: of an archive that was cut off, or of which a byte is another, all
// is taken as it was or nothing.
func TestBrokenArchives(t *testing.T) {
	here, _, state := filled(t)
	sent, _ := here.export(t, map[string]*pipeline.State{"train": state})
	whole := newMuster(t)
	_, _, err := whole.take(t, sent)
	must(t, err)
	want := held(t, whole.results)
	attempt := func(what string, archive []byte) (failed bool) {
		there := newMuster(t)
		_, _, err := there.take(t, archive)
		got := held(t, there.results)
		if err == nil && !maps.Equal(got, want) || err != nil && len(got) > 0 {
			t.Errorf("%s: %v; there is %q", what, err, slices.Sorted(maps.Keys(got)))
		}
		return err != nil
	}
	end := bytes.Index(sent, []byte(endFile))
	for n := 0; n < end; n += 256 {
		if !attempt(fmt.Sprintf("the first %d bytes", n), sent[:n]) {
			t.Errorf("the first %d bytes were taken", n)
		}
	}
	for i := 0; i < len(sent); i += 23 {
		damaged := slices.Clone(sent)
		damaged[i] ^= 4
		attempt(fmt.Sprintf("byte %d", i), damaged)
	}
	content := bytes.Index(sent, []byte("second"))
	damaged := slices.Clone(sent)
	damaged[content] = 'S'
	if !attempt("content", damaged) {
		t.Error("another content was taken")
	}
}

// TestForeignArchives are refused in words, and nothing of them is taken.
func TestForeignArchives(t *testing.T) {
	r := recipe(t, "--epochs=3")
	begin := member{name: beginFile, content: `{"version":1,"pipeline":"digits","stages":{}}`}
	other := result(t, r, "a", digest.ID{}, 0)
	renamed := slices.Clone(other)
	renamed[1].name = pipeline.ResultPath(given("b")) + "/" + pipeline.RecordFile
	failed := result(t, r, "a", digest.ID{}, 3)
	wrong := slices.Clone(other)
	wrong[0].content = strings.Replace(wrong[0].content, `"parts":{`, `"parts":{"x":"y",`, 1)
	end, err := json.Marshal(ending{})
	must(t, err)
	for name, tt := range map[string]struct {
		members []member
		says    string
	}{
		"nothing":           {nil, "ends before an archive begins"},
		"files":             {[]member{{name: "a.txt", content: "x"}}, "begins with"},
		"another version":   {[]member{{name: beginFile, content: `{"version":2,"pipeline":"digits"}`}}, "version 2"},
		"no pipeline":       {[]member{{name: beginFile, content: `{"version":1}`}}, "its pipeline is"},
		"no end":            {[]member{begin}, "ends before its end"},
		"another end":       {[]member{begin, {name: endFile, content: string(end)}}, "damaged"},
		"a record alone":    {[]member{begin, other[1]}, "which is not in it"},
		"another key":       {[]member{begin, renamed[0], renamed[1]}, "another result"},
		"a failure":         {append([]member{begin}, failed...), "failed"},
		"a changed recipe":  {append([]member{begin}, wrong...), "another recipe"},
		"a stray file":      {append(append([]member{begin}, other...), member{name: pipeline.ResultPath(given("b")) + "/out/x"}), "it has"},
		"beside the output": {append(append([]member{begin}, other...), member{name: strings.Replace(other[1].name, pipeline.RecordFile, "again", 1)}), "it has"},
		"out of the folder": {append(append([]member{begin}, other...), member{name: strings.Replace(other[1].name, pipeline.RecordFile, "out/../../x", 1)}), "it has"},
		"elsewhere":         {append([]member{begin}, member{name: "runs/x/y"}), "it has"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMuster(t)
			_, _, err := m.take(t, archive(t, tt.members))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v does not say %q", err, tt.says)
			}
			if all := held(t, m.results); len(all) > 0 {
				t.Errorf("taken: %v", all)
			}
		})
	}
	m := newMuster(t)
	for _, c := range []struct{ text, says string }{
		{strings.Repeat("no tar at all ", 100), "no tar"},
		{"too little to say", "ends before an archive begins: it is none that"},
		{"", "ends before an archive begins: it is none that"},
	} {
		if _, _, err := m.take(t, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20q: %v does not say %q", c.text, err, c.says)
		}
	}
}
