package get

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFit(t *testing.T) {
	for name, test := range map[string]struct {
		width int
		want  string
	}{
		"room enough":        {80, "no node has a GPU, and none will"},
		"shortened":          {50, "no node has a GPU,..."},
		"never to nothing":   {10, "no node has a..."},
		"to the last column": {60, "no node has a GPU, and none will"},
	} {
		t.Run(name, func(t *testing.T) {
			table := &metav1.Table{
				ColumnDefinitions: []metav1.TableColumnDefinition{
					{Name: "Name", Type: "string", Format: "name"}, {Name: "Reason", Type: "string"}, {Name: "Age", Type: "string"},
					{Name: "Nodes", Type: "string", Priority: 1},
				},
				Rows: []metav1.TableRow{
					{Cells: []any{"a-training-job-name", "no node has a GPU, and none will", "5s", "this is only shown with -o wide"}},
					{Cells: []any{"b", nil, "5s", ""}},
				},
			}
			fit(table, test.width)
			if diff := cmp.Diff(test.want, table.Rows[0].Cells[1]); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
			if table.Rows[0].Cells[0] != "a-training-job-name" {
				t.Errorf("name: %v", table.Rows[0].Cells[0])
			}
		})
	}
}

// Two columns of text share the width of a terminal, and without a terminal no text has hundreds of
// characters.
func TestLongText(t *testing.T) {
	long := strings.Repeat("a reason ", 60)
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Reason", Type: "string"}, {Name: "Message", Type: "string"}},
		Rows:              []metav1.TableRow{{Cells: []any{"mnist", long, long}}},
	}
	cut(table, mostText)
	if got := table.Rows[0].Cells[1].(string); len(got) > mostText || !strings.HasSuffix(got, "...") {
		t.Errorf("without a terminal: %q", got)
	}
	fit(table, 60)
	if row := fmt.Sprintf("%s   %s   %s", table.Rows[0].Cells...); len(row) > 60 {
		t.Errorf("a row of a terminal of 60 columns: %q", row)
	}
}
