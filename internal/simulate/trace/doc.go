// Package trace reads recorded workloads: the jobs of Microsoft's Philly
// clusters ([ReadPhilly]), and the nodes and pods of Alibaba's openb.
//
// The files are CSV with a header. Columns are found by name, in any order;
// others are ignored. A value that makes no sense is an error that names file,
// row, column, what was given and what is allowed ([FieldError]); rows are
// counted as lines of a spreadsheet are, the header being row 1. Memory is
// bounded: one row at a time, of at most 64 KiB, and only what is kept.
//
// It must not know how the jobs are scheduled.
package trace
