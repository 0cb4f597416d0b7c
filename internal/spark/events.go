package spark

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// errUnlogged says that a script had no log of events kept, and will not have the next
// time.
var errUnlogged = errors.New("there is none: the script has turned spark.eventLog.enabled off, or never begins with Spark; leave it on, or give as many executors at least as at most (executors.min)")

// repeated says of an application that executors have left whether a task ran again that
// had begun before. What it wrote by itself the first time may be with an executor that
// stays, or came to the store with one that went: there would be files twice, or half of
// one. It reads the logs of events of all that the script ran (Spark's EventLoggingListener
// and JsonProtocol, of version 4).
func repeated(folder string) error {
	list, err := os.ReadDir(folder)
	if err == nil && len(list) == 0 {
		err = errUnlogged
	}
	for _, entry := range list {
		if err == nil {
			err = repeats(filepath.Join(folder, entry.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("looking in the log of Spark's events for tasks that ran again: %w", err)
	}
	return nil
}

// repeats looks through one log.
func repeats(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	h := history{stages: map[int]int{}, began: map[turn]bool{}, shuffled: map[turn]bool{}}
	for in := bufio.NewReader(file); !h.over; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the last line may be cut off where the driver was
			return h.verdict()
		}
		if err == nil {
			err = h.add(line)
		}
		if err != nil {
			return err
		}
	}
	return h.verdict()
}

// turn is a partition of a stage, or of what a stage computes.
type turn struct{ of, partition int }

// history is what became of tasks.
type history struct {
	// stages are, by their numbers, what they compute.
	stages map[int]int
	// began are tasks that have begun, and shuffled those that have written for others.
	began, shuffled map[turn]bool
	// again is the first task that ran again.
	again string
	// left says that an executor went before the application was over.
	left, over bool
}

// event is what of an event counts here.
type event struct {
	Event string
	Stage int                     `json:"Stage ID"`
	Task  *task                   `json:"Task Info"`
	Type  string                  `json:"Task Type"`
	End   struct{ Reason string } `json:"Task End Reason"`
	Info  struct {
		Stage int `json:"Stage ID"`
		// RDDs are first what the stage computes, then what that is made from.
		RDDs []struct {
			ID int `json:"RDD ID"`
		} `json:"RDD Info"`
	} `json:"Stage Info"`
}

type task struct {
	Index     int
	Partition *int `json:"Partition ID"`
}

// add takes one event.
func (h *history) add(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	switch e.Event {
	case "SparkListenerStageSubmitted":
		if len(e.Info.RDDs) > 0 {
			h.stages[e.Info.Stage] = e.Info.RDDs[0].ID
		}
	case "SparkListenerTaskStart":
		h.note(h.began, e.Stage, e.Stage, e.Task)
	case "SparkListenerTaskEnd":
		// A stage of a later job makes again what is missing of one before.
		if rdd, ok := h.stages[e.Stage]; ok && e.Type == "ShuffleMapTask" && e.End.Reason == "Success" {
			h.note(h.shuffled, rdd, e.Stage, e.Task)
		}
	case "SparkListenerExecutorRemoved":
		h.left = true
	case "SparkListenerApplicationEnd":
		h.over = true
	}
	return nil
}

func (h *history) note(in map[turn]bool, of, stage int, t *task) {
	if t == nil {
		return
	}
	at := turn{of, t.Index}
	if t.Partition != nil && *t.Partition >= 0 {
		at.partition = *t.Partition
	}
	if in[at] && h.again == "" {
		h.again = fmt.Sprintf("partition %d of stage %d", at.partition, stage)
	}
	in[at] = true
}

// verdict is an error where an executor has left and a task ran again.
func (h *history) verdict() error {
	if h.left && h.again != "" {
		return fmt.Errorf("%s ran again after an executor had left, and may have written files twice: all begins anew", h.again)
	}
	return nil
}
