package trace

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/simulate"
)

const header = "timestamp,duration,num_gpus,gpu_time,cluster\n"

func TestReadPhilly(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	const s = simulate.Second
	for name, test := range map[string]struct {
		text   string
		window Window
		want   []simulate.Job
	}{
		"as it comes": {
			text: header + "2017-10-09 00:00:10,90.0,1,90.0,a\n2017-10-09 00:01:00,0.5,8,4.0,b\n",
			want: []simulate.Job{
				{ID: 0, Submit: 0, Run: 90 * s, GPUs: 1, Queue: "a", Row: 2},
				{ID: 1, Submit: 50 * s, Run: s / 2, GPUs: 8, Queue: "b", Row: 3},
			},
		},
		"unordered, equal times as in the file": {
			text: header + "2017-10-09 00:00:30,3,1,,c\n2017-10-09 00:00:10,1,1,,a\n2017-10-09 00:00:30,4,1,,d\n2017-10-09 00:00:10,2,1,,b\n",
			want: []simulate.Job{
				{ID: 0, Submit: 0, Run: 1 * s, GPUs: 1, Queue: "a", Row: 3},
				{ID: 1, Submit: 0, Run: 2 * s, GPUs: 1, Queue: "b", Row: 5},
				{ID: 2, Submit: 20 * s, Run: 3 * s, GPUs: 1, Queue: "c", Row: 2},
				{ID: 3, Submit: 20 * s, Run: 4 * s, GPUs: 1, Queue: "d", Row: 4},
			},
		},
		"a window counts from its beginning and without its end": {
			text:   header + "2017-10-08 23:59:59,1,1,,a\n2017-10-09 00:00:00,2,1,,a\n2017-10-09 23:59:59,3,1,,a\n2017-10-10 00:00:00,4,1,,a\n",
			window: Window{From: day("2017-10-09"), To: day("2017-10-10")},
			want: []simulate.Job{
				{ID: 0, Submit: 0, Run: 2 * s, GPUs: 1, Queue: "a", Row: 3},
				{ID: 1, Submit: simulate.Day - s, Run: 3 * s, GPUs: 1, Queue: "a", Row: 4},
			},
		},
		"columns in another order, others beside them, a mark and line ends of Windows": {
			text: "\ufeffcluster,user,num_gpus,timestamp,duration\r\na,x,2,2017-10-09 00:00:00,5\r\n",
			want: []simulate.Job{{ID: 0, Run: 5 * s, GPUs: 2, Queue: "a", Row: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, err := ReadPhilly("p.csv", strings.NewReader(test.text), test.window)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, jobs); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadPhillyRefuses(t *testing.T) {
	good := "2017-10-09 00:00:00,1,1,1,a\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"", "p.csv is empty: its first row must name the columns timestamp, duration, num_gpus, cluster"},
		"only a header":  {header, "p.csv: no job was submitted in the window; the file has 0 rows"},
		"a column less":  {"timestamp,num_gpus,cluster\n", `p.csv, row 1: no column is named duration; the columns are "timestamp,num_gpus,cluster", needed are timestamp, duration, num_gpus, cluster`},
		"two less":       {"a,duration,cluster\n", `p.csv, row 1: no column is named timestamp or num_gpus; the columns are "a,duration,cluster", needed are timestamp, duration, num_gpus, cluster`},
		"a time":         {header + good + "yesterday,1,1,1,a\n", `p.csv, row 3, column timestamp: "yesterday" was given; allowed is a local time such as "2017-10-09 14:03:00", from 1970 on`},
		"an old time":    {header + "0017-10-09 00:00:00,1,1,1,a\n", `p.csv, row 2, column timestamp: "0017-10-09 00:00:00" was given; allowed is a local time such as "2017-10-09 14:03:00", from 1970 on`},
		"a negative run": {header + good + "2017-10-09 00:00:00,-5,1,1,a\n", `p.csv, row 3, column duration: "-5" was given; allowed is a run time from 0 to 3162240000 seconds`},
		"NaN":            {header + "2017-10-09 00:00:00,NaN,1,1,a\n", `p.csv, row 2, column duration: "NaN" was given; allowed is a run time from 0 to 3162240000 seconds`},
		"an endless run": {header + "2017-10-09 00:00:00,1e300,1,1,a\n", `p.csv, row 2, column duration: "1e300" was given; allowed is a run time from 0 to 3162240000 seconds`},
		"an empty run":   {header + "2017-10-09 00:00:00,,1,1,a\n", `p.csv, row 2, column duration: "" was given; allowed is a run time from 0 to 3162240000 seconds`},
		"no GPUs":        {header + "2017-10-09 00:00:00,1,0,1,a\n", `p.csv, row 2, column num_gpus: "0" was given; allowed is a whole number of GPUs from 1 to 1048576`},
		"half a GPU":     {header + "2017-10-09 00:00:00,1,0.5,1,a\n", `p.csv, row 2, column num_gpus: "0.5" was given; allowed is a whole number of GPUs from 1 to 1048576`},
		"too many GPUs":  {header + "2017-10-09 00:00:00,1,99999999999999999999,1,a\n", `p.csv, row 2, column num_gpus: "99999999999999999999" was given; allowed is a whole number of GPUs from 1 to 1048576`},
		"GPU time":       {header + "2017-10-09 00:00:00,1,1,-1,a\n", `p.csv, row 2, column gpu_time: "-1" was given; allowed is GPU-seconds, 0 or more, or nothing`},
		"a short row":    {header + "2017-10-09 00:00:00,1\n", `p.csv, row 2, column num_gpus: "2017-10-09 00:00:00,1" was given; allowed is a row with at least 3 columns`},
		"a stray quote":  {header + good + "2017-10-09 00:00:00,\"1,1,1,a\n", `p.csv, row 3 (line 3): not CSV: extraneous or missing " in quoted-field`},
		"a long line":    {header + strings.Repeat("x", 1<<20), `reading p.csv, row 2: a line of more than 65536 bytes: this is no table`},
		"a long value":   {header + strings.Repeat("y", 500) + ",1,1,1,a\n", `p.csv, row 2, column timestamp: "` + strings.Repeat("y", 60) + `..." was given; allowed is a local time such as "2017-10-09 14:03:00", from 1970 on`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadPhilly("p.csv", strings.NewReader(test.text), Window{})
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// torn fails after its text.
type torn struct{ io.Reader }

func (r torn) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestReadPhillyPassesErrorsOn(t *testing.T) {
	_, err := ReadPhilly("p.csv", torn{strings.NewReader(header)}, Window{})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error is %v, want the reader's", err)
	}
}

// rows makes up a file of so many rows without holding it.
type rows struct {
	left, made int
	rest       []byte
}

func (r *rows) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		switch {
		case r.made == 0:
			r.rest = []byte(header)
		case r.left == 0:
			return 0, io.EOF
		default:
			at := time.Unix(1_500_000_000+int64(r.made), 0).UTC()
			r.rest = fmt.Appendf(r.rest[:0], "%s,%d.0,1,%d.0,queue%d\n", at.Format(Layout), r.made%5000, r.made%5000, r.made%7)
			r.left--
		}
		r.made++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestAMillionRows(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	window := Window{From: time.Unix(1_500_100_000, 0).UTC(), To: time.Unix(1_500_101_000, 0).UTC()}
	jobs, err := ReadPhilly("p.csv", &rows{left: 1_000_000}, window)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(jobs) != 1000 {
		t.Errorf("%d jobs in the window, want 1000", len(jobs))
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("a thousand jobs of a million rows take %d bytes", grown)
	}
	runtime.KeepAlive(jobs)
}

// FuzzReadPhilly: whatever the file holds, there are jobs that make sense or
// an error.
func FuzzReadPhilly(f *testing.F) {
	f.Add(header + "2017-10-09 00:00:10,90.0,1,90.0,a\n")
	f.Add(header + "2017-10-09 00:00:10,1e9,1048576,,\n\n,,,,\n")
	f.Add("timestamp,duration,num_gpus,cluster\n\"2017-10-09 00:00:10\",-0,+1,a")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := ReadPhilly("p.csv", strings.NewReader(text), Window{})
		if (err == nil) != (len(jobs) > 0) {
			t.Fatalf("%d jobs and the error %v", len(jobs), err)
		}
		for i, job := range jobs {
			if job.ID != i || job.Run < 0 || job.GPUs < 1 || i > 0 && job.Submit < jobs[i-1].Submit {
				t.Fatalf("job %d is %+v", i, job)
			}
		}
	})
}
