package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxRow is how long a row may be, in bytes.
const maxRow = 64 << 10

// FieldError is a value of a file that makes no sense.
type FieldError struct {
	// File is the file's name, Row its row with the header as row 1, and
	// Column the column's name.
	File   string
	Row    int
	Column string
	// Given is what it says, Allowed what it may say.
	Given, Allowed string
}

// Error says where, what was given and what is allowed.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s, row %d, column %s: %q was given; allowed is %s", e.File, e.Row, e.Column, shorten(e.Given), e.Allowed)
}

// shorten keeps messages readable whatever the file holds.
func shorten(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Table reads a CSV file with a header row by row.
type Table struct {
	file   string
	reader *csv.Reader
	names  []string
	places []int
	row    int
	record []string
}

// NewTable reads the header, which must hold the required columns. Optional
// columns that are missing read as empty.
func NewTable(file string, r io.Reader, required, optional []string) (*Table, error) {
	t := &Table{file: file, reader: csv.NewReader(&bounded{reader: r}), names: slices.Concat(required, optional), row: 1}
	t.reader.ReuseRecord = true
	t.reader.FieldsPerRecord = -1
	header, err := t.reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is empty: its first row must name the columns %s", file, strings.Join(required, ", "))
	}
	if err != nil {
		return nil, t.explain(err)
	}
	if len(header) > 0 {
		header[0] = strings.TrimPrefix(header[0], "\ufeff")
	}
	var missing []string
	for i, name := range t.names {
		place := slices.IndexFunc(header, func(given string) bool { return strings.TrimSpace(given) == name })
		if place < 0 && i < len(required) {
			missing = append(missing, name)
		}
		t.places = append(t.places, place)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s, row 1: no column is named %s; the columns are %q, needed are %s",
			file, strings.Join(missing, " or "), shorten(strings.Join(header, ",")), strings.Join(required, ", "))
	}
	return t, nil
}

// Next reads the next row; at the end of the file it returns io.EOF.
func (t *Table) Next() error {
	record, err := t.reader.Read()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	t.row++
	if err != nil {
		return t.explain(err)
	}
	t.record = record
	for i, place := range t.places {
		if place >= len(record) {
			return &FieldError{File: t.file, Row: t.row, Column: t.names[i], Given: strings.Join(record, ","), Allowed: fmt.Sprintf("a row with at least %d columns", place+1)}
		}
	}
	return nil
}

// Row is the number of the row that Next has read; the header is row 1.
func (t *Table) Row() int { return t.row }

// Get returns the value of the column, by its position among the required
// and then the optional names. It is valid until the next row is read.
func (t *Table) Get(column int) string {
	if t.places[column] < 0 {
		return ""
	}
	return strings.TrimSpace(t.record[t.places[column]])
}

// Wrong makes the error about the column's value in this row.
func (t *Table) Wrong(column int, allowed string) error {
	return &FieldError{File: t.file, Row: t.row, Column: t.names[column], Given: t.Get(column), Allowed: allowed}
}

// explain names the file and row of an error in reading.
func (t *Table) explain(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s, row %d (line %d): not CSV: %w", t.file, t.row, parse.Line, parse.Err)
	}
	return fmt.Errorf("reading %s, row %d: %w", t.file, t.row, err)
}

// bounded fails on lines that are too long to be held.
type bounded struct {
	reader io.Reader
	length int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	for _, c := range p[:n] {
		b.length++
		if c == '\n' {
			b.length = 0
		}
		if b.length > maxRow {
			return 0, fmt.Errorf("a line of more than %d bytes: this is no table", maxRow)
		}
	}
	return n, err
}
