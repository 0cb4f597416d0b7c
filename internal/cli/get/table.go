package get

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// asTable asks the server to lay the answer out as a table.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// watchPause is how long to wait before a watch that ended is begun again.
const watchPause = 500 * time.Millisecond

// tables prints the server's tables of one kind.
type tables struct {
	options *options
	wanted  kind.Wanted
	out     io.Writer
	style   terminal.Style
	several bool
	first   bool

	rows    int
	columns []metav1.TableColumnDefinition
	printed bool
	// text is what writer lays out; the writer remembers the widths of the
	// columns from one table of a watch to the next.
	text   bytes.Buffer
	writer interface {
		io.Writer
		Flush() error
	}
	// shown is the last row of each object in a watch.
	shown map[string]string
}

// codec decodes the server's tables.
func codec() (runtime.NegotiatedSerializer, error) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the table kind: %w", err)
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).WithoutConversion(), nil
}

func (t *tables) run(ctx context.Context) error {
	serializers, err := codec()
	if err != nil {
		return err
	}
	client, err := t.options.factory.REST(t.wanted.Mapping.Resource.GroupVersion(), serializers)
	if err != nil {
		return err
	}
	if t.options.watch {
		return t.watch(ctx, client)
	}
	if len(t.wanted.Names) == 0 {
		table, err := t.fetch(ctx, client, "")
		if err != nil {
			return t.options.explain(t.wanted, "", err)
		}
		if err := t.addUnmade(ctx, serializers, table); err != nil {
			return err
		}
		if err := t.addUsers(ctx, table); err != nil {
			return err
		}
		return t.print(table)
	}
	var all *metav1.Table
	var unmade []member.Unmade
	for _, name := range t.wanted.Names {
		table, err := t.fetch(ctx, client, name)
		if apierrors.IsNotFound(err) {
			if u, is := t.options.unmade(ctx, t.wanted, name); is && *t.options.format != output.Name {
				unmade = append(unmade, u)
				continue
			}
		}
		if err != nil {
			return t.options.missing(ctx, t.wanted, name, err)
		}
		if all == nil {
			all = table
			continue
		}
		all.Rows = append(all.Rows, table.Rows...)
	}
	if err := t.print(withUnmade(all, unmade)); err != nil {
		return err
	}
	for _, u := range unmade {
		_, _ = fmt.Fprintf(t.options.factory.Streams.Err, "%s: %s\n", u.Reference(), u.Sentence())
	}
	return nil
}

func (t *tables) request(client *rest.RESTClient, options metav1.ListOptions) *rest.Request {
	request := client.Get().Resource(t.wanted.Mapping.Resource.Resource).SetHeader("Accept", asTable).
		Param("includeObject", string(metav1.IncludeMetadata))
	if namespace := t.options.scope(t.wanted); namespace != "" {
		request = request.Namespace(namespace)
	}
	for name, value := range map[string]string{
		"labelSelector": options.LabelSelector, "fieldSelector": options.FieldSelector, "resourceVersion": options.ResourceVersion,
	} {
		if value != "" {
			request = request.Param(name, value)
		}
	}
	if options.Watch {
		request = request.Param("watch", "true")
	}
	return request
}

// fetch reads one object's table, or that of all.
func (t *tables) fetch(ctx context.Context, client *rest.RESTClient, name string) (*metav1.Table, error) {
	request := t.request(client, metav1.ListOptions{LabelSelector: t.options.selector})
	if name != "" {
		request = request.Name(name)
	}
	raw, err := request.Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil {
		return nil, fmt.Errorf("reading the server's table: %w", err)
	}
	return table, nil
}

// print writes a table.
func (t *tables) print(table *metav1.Table) error {
	t.rows += len(table.Rows)
	if *t.options.format == output.Name {
		for i := range table.Rows {
			metadata, err := rowMetadata(&table.Rows[i])
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(t.out, output.Reference(t.wanted.Mapping.GroupVersionKind.GroupKind(), metadata.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(table.Rows) == 0 {
		return nil
	}
	// Only the first table of a watch names its columns.
	if len(table.ColumnDefinitions) == 0 {
		table.ColumnDefinitions = t.columns
	}
	t.columns = table.ColumnDefinitions
	for i := range table.Rows {
		metadata, err := rowMetadata(&table.Rows[i])
		if err != nil {
			return err
		}
		table.Rows[i].Object = runtime.RawExtension{Object: metadata}
	}
	if width, _, ok := terminal.Size(t.out); *t.options.format != output.Wide {
		cut(table, mostText)
		if ok {
			fit(table, width)
		}
	}
	t.text.Reset()
	if t.writer == nil {
		t.writer = printers.GetNewTabWriter(&t.text)
	}
	printer := printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: t.options.noHeaders || t.printed, Wide: *t.options.format == output.Wide,
		WithNamespace: t.options.all && t.wanted.Namespaced(), ShowLabels: t.options.labels,
		WithKind: t.several, Kind: t.wanted.Mapping.GroupVersionKind.GroupKind(),
	})
	if err := printer.PrintObj(table, t.writer); err != nil {
		return fmt.Errorf("laying out the table: %w", err)
	}
	if err := t.writer.Flush(); err != nil {
		return err
	}
	if t.several && !t.first && !t.printed {
		if _, err := fmt.Fprintln(t.out); err != nil {
			return err
		}
	}
	t.printed = true
	_, err := io.WriteString(t.out, paintPhases(t.style, t.text.String()))
	return err
}

// rowMetadata decodes the metadata that comes with a row.
func rowMetadata(row *metav1.TableRow) (*metav1.PartialObjectMetadata, error) {
	metadata := &metav1.PartialObjectMetadata{}
	if row.Object.Raw == nil {
		return metadata, nil
	}
	if err := json.Unmarshal(row.Object.Raw, metadata); err != nil {
		return nil, fmt.Errorf("reading a row of the server's table: %w", err)
	}
	return metadata, nil
}

// paintPhases colours the first word of each line that is a phase.
func paintPhases(style terminal.Style, text string) string {
	if style == terminal.Coloured(false) {
		return text
	}
	var painted strings.Builder
	for line := range strings.Lines(text) {
		for word := range strings.FieldsSeq(line) {
			if coloured := style.Phase(word, word); coloured != word {
				line = strings.Replace(line, word, coloured, 1)
				break
			}
		}
		painted.WriteString(line)
	}
	return painted.String()
}

// watch prints what there is, then every change, until ctx ends.
func (t *tables) watch(ctx context.Context, client *rest.RESTClient) error {
	options := metav1.ListOptions{LabelSelector: t.options.selector}
	if len(t.wanted.Names) == 1 {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", t.wanted.Names[0]).String()
	}
	for {
		raw, err := t.request(client, options).Do(ctx).Raw()
		if err != nil {
			return t.options.explain(t.wanted, "", err)
		}
		table := &metav1.Table{}
		if err := json.Unmarshal(raw, table); err != nil {
			return fmt.Errorf("reading the server's table: %w", err)
		}
		if err := t.printNews(table); err != nil {
			return err
		}
		following := options
		following.Watch, following.ResourceVersion = true, table.ResourceVersion
		if err := t.changes(ctx, t.request(client, following)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchPause):
		}
	}
}

// changes prints the events of one watch until it ends.
func (t *tables) changes(ctx context.Context, request *rest.Request) error {
	stream, err := request.Stream(ctx)
	if err != nil {
		return t.options.explain(t.wanted, "", err)
	}
	defer func() { _ = stream.Close() }()
	decoder := json.NewDecoder(stream)
	for {
		var event metav1.WatchEvent
		if err := decoder.Decode(&event); err != nil {
			// The connection ended: what changed meanwhile is listed anew.
			return ctx.Err()
		}
		if event.Type == string(watch.Error) || event.Type == string(watch.Bookmark) {
			continue
		}
		table := &metav1.Table{}
		if err := json.Unmarshal(event.Object.Raw, table); err != nil {
			return fmt.Errorf("reading the server's table: %w", err)
		}
		if event.Type == string(watch.Deleted) {
			clear(t.shown)
		}
		if err := t.printNews(table); err != nil {
			return err
		}
	}
}

// printNews prints those rows of a watch that differ from what was printed of
// the object last: much of what changes in an object is in no column.
func (t *tables) printNews(table *metav1.Table) error {
	if len(table.ColumnDefinitions) == 0 {
		table.ColumnDefinitions = t.columns
	}
	t.columns = table.ColumnDefinitions
	if t.shown == nil {
		t.shown = map[string]string{}
	}
	var news []metav1.TableRow
	for i := range table.Rows {
		metadata, err := rowMetadata(&table.Rows[i])
		if err != nil {
			return err
		}
		key, cells := metadata.Namespace+"/"+metadata.Name, t.cells(table, i)
		if last, ok := t.shown[key]; !ok || last != cells {
			news = append(news, table.Rows[i])
		}
		t.shown[key] = cells
	}
	table.Rows = news
	return t.print(table)
}

// cells is what the columns that are shown say, without ages, which change by
// themselves.
func (t *tables) cells(table *metav1.Table, row int) string {
	var text strings.Builder
	for column, definition := range table.ColumnDefinitions {
		if definition.Name == "Age" || definition.Priority > 0 && *t.options.format != output.Wide || column >= len(table.Rows[row].Cells) {
			continue
		}
		_, _ = fmt.Fprintf(&text, "%v\x00", table.Rows[row].Cells[column])
	}
	if t.options.labels {
		metadata, err := rowMetadata(&table.Rows[row])
		if err == nil {
			_, _ = fmt.Fprint(&text, metadata.Labels)
		}
	}
	return text.String()
}
