package terminal

import (
	"io"
	"strings"
	"unicode"
)

// Table is rows of cells that are aligned in columns, two blanks apart.
type Table struct {
	header []string
	rows   [][]cell
}

type cell struct {
	text   string
	colour Colour
}

// NewTable returns a table with these column names. No names: no header line.
func NewTable(header ...string) *Table { return &Table{header: header} }

// Row adds a row. An empty cell is left blank; lines of a cell are written as
// one, a control character as a blank, and other text as [Clean] has it.
func (t *Table) Row(texts ...string) *Table {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i].text = oneLine(text)
	}
	t.rows = append(t.rows, row)
	return t
}

func oneLine(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	}
	return Clean(text)
}

// Paint gives the cell of the last row in this column a colour. Colours do
// not disturb the alignment.
func (t *Table) Paint(column int, colour Colour) *Table {
	t.rows[len(t.rows)-1][column].colour = colour
	return t
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table, every line after indent.
func (t *Table) Write(w io.Writer, style Style, indent string) error {
	var text strings.Builder
	widths := t.widths()
	if len(t.header) > 0 {
		cells := make([]cell, len(t.header))
		for i, name := range t.header {
			cells[i].text = name
		}
		writeRow(&text, style, indent, widths, cells)
	}
	for _, row := range t.rows {
		writeRow(&text, style, indent, widths, row)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (t *Table) widths() []int {
	var widths []int
	grow := func(column int, text string) {
		for len(widths) <= column {
			widths = append(widths, 0)
		}
		widths[column] = max(widths[column], columnsOf(text))
	}
	for column, name := range t.header {
		grow(column, name)
	}
	for _, row := range t.rows {
		for column, c := range row {
			grow(column, c.text)
		}
	}
	return widths
}

func writeRow(text *strings.Builder, style Style, indent string, widths []int, row []cell) {
	last := len(row) - 1
	for last >= 0 && row[last].text == "" {
		last--
	}
	text.WriteString(indent)
	for column := 0; column <= last; column++ {
		shown := row[column].text
		if row[column].colour != 0 {
			shown = style.Paint(row[column].colour, shown)
		}
		text.WriteString(shown)
		if column < last {
			text.WriteString(strings.Repeat(" ", widths[column]-columnsOf(row[column].text)+2))
		}
	}
	text.WriteByte('\n')
}
