package get

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWithUsers: rows of users of the machine have their login, and other tables stay.
func TestWithUsers(t *testing.T) {
	logins := func(uid uint32) string { return map[uint32]string{1001: "ann", 1003: "uid 1003"}[uid] }
	of := func(namespaces ...string) *metav1.Table {
		table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Phase"}}}
		for _, namespace := range namespaces {
			raw := fmt.Sprintf(`{"metadata":{"name":"mnist","namespace":%q}}`, namespace)
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{"mnist", "Running"}, Object: runtime.RawExtension{Raw: []byte(raw)}})
		}
		return table
	}
	table := of("u-1001", "u-1003", "default")
	if err := withUsers(table, logins); err != nil {
		t.Fatal(err)
	}
	var users []any
	for _, row := range table.Rows {
		users = append(users, row.Cells[1])
	}
	if diff := cmp.Diff([]any{"ann", "uid 1003", ""}, users); diff != "" || table.ColumnDefinitions[1].Name != "User" || table.Rows[0].Cells[2] != "Running" {
		t.Errorf("%s\n%+v", diff, table.ColumnDefinitions)
	}
	plain := of("default", "vision")
	if err := withUsers(plain, logins); err != nil || len(plain.ColumnDefinitions) != 2 || len(plain.Rows[0].Cells) != 2 {
		t.Errorf("a table without users is changed: %+v, %v", plain, err)
	}
}
