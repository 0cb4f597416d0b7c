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
)

// fit shortens the widest column of text of a table, so that a row takes one
// line of a terminal with so many columns. -o wide shows it whole.
func fit(table *metav1.Table, terminalWidth int) {
	total, widest, text := -gap, -1, 0
	for column, definition := range table.ColumnDefinitions {
		if definition.Priority > 0 {
			continue
		}
		width := utf8.RuneCountInString(definition.Name)
		for _, row := range table.Rows {
			if column < len(row.Cells) {
				width = max(width, utf8.RuneCountInString(fmt.Sprint(row.Cells[column])))
			}
		}
		total += width + gap
		// The name is what one types next.
		if definition.Type == "string" && definition.Format != "name" && column > 0 && width > text {
			widest, text = column, width
		}
	}
	if total <= terminalWidth || widest < 0 {
		return
	}
	room := max(leastColumn, text-(total-terminalWidth))
	for _, row := range table.Rows {
		if widest >= len(row.Cells) {
			continue
		}
		if cell, ok := row.Cells[widest].(string); ok {
			row.Cells[widest] = terminal.Shorten(cell, room)
		}
	}
}
