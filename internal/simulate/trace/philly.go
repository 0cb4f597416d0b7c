package trace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/muster-dev/muster/internal/simulate"
)

// Layout is how a time stamp is written in a Philly file.
const Layout = "2006-01-02 15:04:05"

// What a Philly file may say at most.
const (
	maxSeconds = 100 * 366 * 24 * 3600
	maxGPUs    = 1 << 20
	maxJobs    = 5_000_000
)

// Window is the span of submissions that are read.
type Window struct {
	// From is the first moment that belongs to it, To the first that does not
	// any more. Either may be zero: no bound. They and the file's stamps are
	// local times of the same place, without a zone.
	From, To time.Time
}

// holds reports whether a submission is in the window.
func (w Window) holds(at time.Time) bool {
	return !at.Before(w.From) && (w.To.IsZero() || at.Before(w.To))
}

// columns of a Philly file.
const (
	phillyTime = iota
	phillyDuration
	phillyGPUs
	phillyQueue
	phillyGPUTime
)

// ReadPhilly reads the jobs that were submitted within the window, in order of
// submission (equal times in the order of the file), numbered from 0. Time 0
// is the window's beginning, or the first submission where it has none.
//
// The file, CSV, has the columns timestamp ("2006-01-02 15:04:05"), duration
// (seconds), num_gpus and cluster (the virtual cluster, which becomes the
// queue). gpu_time is checked to be a number where it is there, and not used.
// Rows outside the window are checked as well. name is the file's name in
// messages.
func ReadPhilly(name string, r io.Reader, window Window) ([]simulate.Job, error) {
	table, err := NewTable(name, r, []string{"timestamp", "duration", "num_gpus", "cluster"}, []string{"gpu_time"})
	if err != nil {
		return nil, err
	}
	var jobs []simulate.Job
	queues := names{}
	sorted := true
	for {
		err := table.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		at, job, err := phillyRow(table)
		if err != nil {
			return nil, err
		}
		if !window.holds(at) {
			continue
		}
		if len(jobs) == maxJobs {
			return nil, fmt.Errorf("%s, row %d: more than %d jobs in the window: choose a narrower one", name, table.Row(), maxJobs)
		}
		job.Queue = queues.one(table.Get(phillyQueue))
		sorted = sorted && (len(jobs) == 0 || jobs[len(jobs)-1].Submit <= job.Submit)
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%s: no job was submitted in the window; the file has %d rows", name, table.Row()-1)
	}
	if !sorted {
		slices.SortStableFunc(jobs, func(a, b simulate.Job) int { return compare(a.Submit, b.Submit) })
	}
	zero := jobs[0].Submit
	if !window.From.IsZero() {
		zero = simulate.Micros(window.From.UnixMicro())
	}
	for i := range jobs {
		jobs[i].ID = i
		jobs[i].Submit -= zero
	}
	return jobs, nil
}

// phillyRow checks one row. The job's submission counts from 1970.
func phillyRow(table *Table) (at time.Time, job simulate.Job, err error) {
	at, err = time.Parse(Layout, table.Get(phillyTime))
	if err != nil || at.Year() < 1970 {
		return at, job, table.Wrong(phillyTime, `a local time such as "2017-10-09 14:03:00", from 1970 on`)
	}
	seconds, err := strconv.ParseFloat(table.Get(phillyDuration), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
		return at, job, table.Wrong(phillyDuration, fmt.Sprintf("a run time from 0 to %d seconds", int64(maxSeconds)))
	}
	gpus, err := strconv.Atoi(table.Get(phillyGPUs))
	if err != nil || gpus < 1 || gpus > maxGPUs {
		return at, job, table.Wrong(phillyGPUs, fmt.Sprintf("a whole number of GPUs from 1 to %d", maxGPUs))
	}
	if given := table.Get(phillyGPUTime); given != "" {
		if used, err := strconv.ParseFloat(given, 64); err != nil || !(used >= 0) || math.IsInf(used, 0) {
			return at, job, table.Wrong(phillyGPUTime, "GPU-seconds, 0 or more, or nothing")
		}
	}
	return at, simulate.Job{
		Submit: simulate.Micros(at.UnixMicro()),
		Run:    simulate.Micros(math.Round(seconds * 1e6)),
		GPUs:   gpus,
		Row:    table.Row(),
	}, nil
}

// names keeps one copy of every name.
type names map[string]string

func (n names) one(name string) string {
	if kept, ok := n[name]; ok {
		return kept
	}
	// The reader's memory is reused for the next row.
	kept := string([]byte(name))
	n[kept] = kept
	return kept
}

func compare(a, b simulate.Micros) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
