package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

// Document is how something came to be, as -o json prints it.
type Document struct {
	Dataset string `json:"dataset"`
	Commit  string `json:"commit"`
	// Path is empty where all of it is meant.
	Path string `json:"path,omitempty"`
	// Kind is file, link or folder.
	Kind  string `json:"kind"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	// Author, Time and Message are those of the commit.
	Author  string    `json:"author,omitempty"`
	Time    time.Time `json:"time"`
	Message string    `json:"message,omitempty"`
	// Made is how a stage made it; not there where somebody put it.
	Made *Making `json:"made,omitempty"`
	// From is what it was made of.
	From []Document `json:"from,omitempty"`
	// Told says that its own origin is told above.
	Told bool `json:"told,omitempty"`
}

// Making is how a stage made something.
type Making struct {
	Pipeline string `json:"pipeline"`
	Stage    string `json:"stage"`
	Run      string `json:"run,omitempty"`
	// Datum is the one that made it; empty where more than a file is meant, or it is not
	// known any more.
	Datum string `json:"datum,omitempty"`
	// Recipe is the digest of all that counted beside data. Command is what was called,
	// Code, Environment and Settings what counted of each: digests of files, versions of
	// packages, and what else the stage says.
	Recipe      string            `json:"recipe"`
	Command     []string          `json:"command,omitempty"`
	Code        map[string]string `json:"code,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	Settings    map[string]string `json:"settings,omitempty"`
	// Record is how the datum was computed.
	Record *plans.Record `json:"record,omitempty"`
}

// Made is what a datum made of something, as -o json prints it.
type Made struct {
	Dataset  string `json:"dataset"`
	Commit   string `json:"commit"`
	Pipeline string `json:"pipeline"`
	Stage    string `json:"stage"`
	Run      string `json:"run,omitempty"`
	Datum    string `json:"datum"`
	// Of is the dataset that it was given something of, Paths what it made.
	Of    string   `json:"of"`
	Paths []string `json:"paths"`
}

// document is an origin with what its recipes and records say.
func (s *search) document(ctx context.Context, o *plans.Origin) (Document, error) {
	d := Document{
		Dataset: o.Dataset, Commit: o.Commit.ID.String(), Path: o.Path, Kind: o.Kind.String(), Files: o.Files, Bytes: o.Bytes,
		Author: o.Commit.Author, Time: o.Commit.Time.UTC(), Message: o.Commit.Message, Told: o.Told,
	}
	var err error
	if o.Made != nil {
		if d.Made, err = s.making(ctx, o.Made); err != nil {
			return d, err
		}
	}
	for _, from := range o.From {
		inner, err := s.document(ctx, from)
		if err != nil {
			return d, err
		}
		d.From = append(d.From, inner)
	}
	return d, nil
}

func (s *search) making(ctx context.Context, t *plans.Trace) (*Making, error) {
	says := t.Provenance
	m := &Making{Pipeline: says.Pipeline, Stage: says.Stage, Run: says.Run, Datum: t.Datum, Recipe: says.Recipe.String()}
	if s.results == nil {
		return m, nil
	}
	recipe, err := plans.ReadRecipe(ctx, s.results, says.Recipe)
	switch {
	case err == nil:
		m.tell(recipe)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if t.Datum == "" {
		return m, nil
	}
	if m.Record, err = plans.ReadRecord(ctx, s.results, t.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return m, nil
}

// tell says what counts of a recipe.
func (m *Making) tell(r *plans.Recipe) {
	m.Code, m.Environment, m.Settings = map[string]string{}, map[string]string{}, map[string]string{}
	for name, value := range r.Detail {
		switch kind, rest, _ := strings.Cut(name, "/"); kind {
		case "code":
			m.Code[rest] = value
		case "environment":
			m.Environment[rest] = value
		case "command", "script", "args":
		default:
			m.Settings[name] = value
		}
	}
	for _, kind := range []string{"command", "script", "args"} {
		for i := 0; ; i++ {
			word, ok := r.Detail[kind+"/"+strconv.Itoa(i)]
			if !ok {
				break
			}
			m.Command = append(m.Command, word)
		}
	}
}

func (o *options) printOrigin(d Document) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, d)
	}
	var text strings.Builder
	o.tell(&text, &d, "")
	_, err := io.WriteString(o.factory.Streams.Out, text.String())
	return err
}

// tell says how something came to be, and then the same of what it was made of.
func (o *options) tell(text *strings.Builder, d *Document, indent string) {
	style := o.factory.Streams.OutStyle()
	size := terminal.Size64(d.Bytes)
	if d.Kind == "folder" {
		size = terminal.Count(d.Files, "file") + ", " + size
	}
	name := d.Dataset + ":/" + d.Path
	_, _ = fmt.Fprintf(text, "%s%s  %s, commit %s\n", indent, style.Paint(terminal.Yellow, name), size, d.Commit[:12])
	indent += "  "
	if d.Told {
		_, _ = fmt.Fprintf(text, "%show it came to be is told above\n", indent)
		return
	}
	ago := terminal.WholeSpan(max(o.now().Sub(d.Time), 0)) + " ago"
	if d.Made == nil {
		message, _, _ := strings.Cut(d.Message, "\n")
		line := "put by " + d.Author + " " + ago
		if message != "" {
			line += ": " + terminal.Shorten(message, 60)
		}
		_, _ = fmt.Fprintf(text, "%s%s\n", indent, line)
		return
	}
	for _, line := range d.Made.lines(ago) {
		_, _ = fmt.Fprintf(text, "%s%s\n", indent, line)
	}
	for i := range d.From {
		o.tell(text, &d.From[i], indent)
	}
}

// few is how many files of code, packages and settings are told; -o json tells all.
const few = 6

func (m *Making) lines(ago string) []string {
	first := fmt.Sprintf("made by stage %s of pipeline %s", m.Stage, m.Pipeline)
	if m.Run != "" {
		first += ", run " + m.Run
	}
	if m.Record == nil {
		first += ", " + ago
	}
	lines := []string{first}
	if r := m.Record; r != nil {
		line := fmt.Sprintf("datum %s: %s", m.Datum, terminal.Span(time.Duration(r.Seconds*float64(time.Second))))
		if r.GPUs == 1 {
			line += ", 1 GPU"
		} else if r.GPUs > 0 {
			line += fmt.Sprintf(", %g GPUs", r.GPUs)
		}
		if r.Where != "" {
			line += ", on " + r.Where
		}
		lines = append(lines, line+", "+r.Started.UTC().Format("2006-01-02 15:04:05")+" UTC")
	}
	if len(m.Command) > 0 {
		lines = append(lines, "command: "+terminal.Shorten(strings.Join(m.Command, " "), 100))
	}
	for _, what := range []struct {
		name  string
		parts map[string]string
	}{{"code", m.Code}, {"environment", m.Environment}, {"settings", m.Settings}} {
		if line := listed(what.parts); line != "" {
			lines = append(lines, what.name+": "+line)
		}
	}
	return lines
}

// listed is the first of what counts, in order.
func listed(parts map[string]string) string {
	names := slices.Sorted(maps.Keys(parts))
	var shown []string
	for _, name := range names[:min(few, len(names))] {
		value := parts[name]
		if len(value) == 64 && strings.Trim(value, "0123456789abcdef") == "" {
			value = value[:12]
		}
		shown = append(shown, strings.TrimSpace(name+" "+terminal.Shorten(value, 40)))
	}
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more (-o json)", more))
	}
	return strings.Join(shown, ", ")
}

func (o *options) printMade(a address.Address, found []Made) error {
	streams := o.factory.Streams
	if *o.format != output.Human {
		return output.Print(streams.Out, *o.format, found)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(streams.Out, "nothing that branches and tags are at was made of %s:/%s%s\n", version(a), a.Path, hint(o.all))
		return err
	}
	table := terminal.NewTable("DATASET", "MADE", "COMMIT", "STAGE", "DATUM", "OF")
	for _, m := range found {
		made := "nothing"
		if len(m.Paths) > 0 {
			made = m.Paths[0]
		}
		if len(m.Paths) > 1 {
			made = fmt.Sprintf("%s and %d more", terminal.Shorten(made, 40), len(m.Paths)-1)
		}
		table.Row(m.Dataset, made, m.Commit[:12], path.Join(m.Pipeline, m.Stage), terminal.Shorten(m.Datum, 40), m.Of)
		table.Paint(0, terminal.Yellow)
	}
	return table.Write(streams.Out, streams.OutStyle(), "")
}

func hint(all bool) string {
	if all {
		return ", nor anything before"
	}
	return "; --all looks at what they were at before, too"
}
