package get

import (
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

const (
	// gap is how many blanks the printer puts between columns.
	gap = 3
	// leastColumn is what a shortened column keeps, in characters.
	leastColumn = 16
	// mostText limits a text in a table that is not printed to a terminal, in characters.
	mostText = 120
)

// fit shortens columns of text of a table, the widest first, so that a row fits on one line of a
// terminal of the given width. -o wide shows it whole.
func fit(table *metav1.Table, terminalWidth int) {
	widths := make([]int, len(table.ColumnDefinitions))
	total := -gap
	for column, definition := range table.ColumnDefinitions {
		if definition.Priority > 0 {
			continue
		}
		widths[column] = utf8.RuneCountInString(definition.Name)
		for _, row := range table.Rows {
			if column < len(row.Cells) {
				widths[column] = max(widths[column], utf8.RuneCountInString(fmt.Sprint(row.Cells[column])))
			}
		}
		total += widths[column] + gap
	}
	for total > terminalWidth {
		column := widest(table, widths)
		if column < 0 {
			return
		}
		room := max(leastColumn, widths[column]-(total-terminalWidth))
		shorten(table, column, room)
		total -= widths[column] - room
		widths[column] = room
	}
}

// widest is the widest column of text that can be shortened, or -1.
func widest(table *metav1.Table, widths []int) int {
	found := -1
	for column, definition := range table.ColumnDefinitions {
		// The name is what one types next.
		text := definition.Type == "string" && definition.Format != "name" && definition.Priority == 0 && column > 0
		if text && widths[column] > leastColumn && (found < 0 || widths[column] > widths[found]) {
			found = column
		}
	}
	return found
}

// cut shortens all text of a table that is not printed to a terminal to a number of characters: a
// reason may have hundreds.
func cut(table *metav1.Table, room int) {
	for column, definition := range table.ColumnDefinitions {
		if definition.Type == "string" && definition.Format != "name" && column > 0 {
			shorten(table, column, room)
		}
	}
}

// shorten shortens the cells of a column to a number of characters.
func shorten(table *metav1.Table, column, room int) {
	for _, row := range table.Rows {
		if column >= len(row.Cells) {
			continue
		}
		if cell, ok := row.Cells[column].(string); ok {
			row.Cells[column] = terminal.Shorten(cell, room)
		}
	}
}
