package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/pipeline"
)

// strike commits the times that have come, and says when the next one does.
func (c *Pipelines) strike(ctx context.Context, s *seen) (time.Duration, error) {
	var next time.Duration
	for _, stage := range s.graph.Stages {
		for _, in := range stage.Sources {
			if in.Cron == nil {
				continue
			}
			wait, err := c.strikeOne(ctx, s, sourceHead(s.graph, stage, in), in.Cron)
			if err != nil {
				return 0, fmt.Errorf("stage %s: input %s: %w", stage.Name, in.Name, err)
			}
			if next == 0 || wait < next {
				next = wait
			}
		}
	}
	return next, nil
}

// strikeOne commits the last time of a schedule that has come, if there is one
// since the last commit. Of times that passed while nobody looked one counts.
func (c *Pipelines) strikeOne(ctx context.Context, s *seen, h head, spec *v1alpha1.CronInput) (time.Duration, error) {
	schedule, err := pipeline.Schedule(spec.Schedule)
	if err != nil {
		return 0, err
	}
	now := c.deps.Now().UTC()
	if err := c.ensure(ctx, s.pipeline, h.dataset); err != nil {
		return 0, err
	}
	d, err := c.deps.Machine.dataset(ctx, c.live, s.pipeline.Namespace, h.dataset)
	if err != nil {
		return 0, err
	}
	since := s.pipeline.CreationTimestamp.UTC()
	if last, err := d.Resolve(ctx, h.branch); err == nil {
		since = last.Time.UTC()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	due := time.Time{}
	for at := schedule.Next(since); !at.IsZero() && !at.After(now); at = schedule.Next(at) {
		due = at
	}
	if !due.IsZero() {
		session, err := d.Begin(ctx, h.branch, data.SessionOptions{})
		if err != nil {
			return 0, err
		}
		if err := strikeInto(ctx, session, due, spec.Overwrite); err != nil {
			return 0, errors.Join(err, session.Close(context.WithoutCancel(ctx)))
		}
		since = now
	}
	// Of a schedule such as @every 90m the next time is one after the last, however
	// often the pipeline is looked at in between.
	next := schedule.Next(since)
	if next.IsZero() {
		return 24 * time.Hour, nil
	}
	return max(next.Sub(now), time.Second), nil
}

func strikeInto(ctx context.Context, session *data.Session, due time.Time, overwrite bool) error {
	if overwrite {
		if _, err := session.Remove(ctx, ""); err != nil {
			return err
		}
	}
	name := due.Format(timeFormat)
	if err := session.Add(ctx, data.Stream(name, strings.NewReader(name+"\n")), data.AddOptions{}); err != nil {
		return err
	}
	_, err := session.Commit(ctx, data.CommitOptions{Author: "muster", Message: "the time is " + name})
	return err
}
