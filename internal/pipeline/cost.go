package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

// samples is how many records an estimate is made of at most.
const samples = 64

// Cost is about what one datum of a stage costs.
type Cost struct {
	// Seconds is how long it takes a worker, GPUSeconds that times the GPUs it has.
	Seconds, GPUSeconds float64
	// Samples is of how many records these are the means; 0: nothing is known.
	Samples int
}

// Cost is the mean of records: of the same datums before, else of others of the
// stage, of which those come first that are looked at anyway.
func (p *Plan) Cost(ctx context.Context, results *data.View) (Cost, error) {
	var c Cost
	if results == nil {
		return c, nil
	}
	keys, err := p.sampled(ctx)
	if err != nil {
		return c, err
	}
	for _, key := range keys {
		record, err := ReadRecord(ctx, results, key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		c.Seconds += record.Seconds
		c.GPUSeconds += record.Seconds * record.GPUs
		c.Samples++
	}
	if c.Samples > 0 {
		c.Seconds /= float64(c.Samples)
		c.GPUSeconds /= float64(c.Samples)
	}
	return c, nil
}

// sampled are the results whose records are read.
func (p *Plan) sampled(ctx context.Context) ([]digest.ID, error) {
	var keys []digest.ID
	for _, was := range p.Gone {
		if len(keys) < samples && !was.Failed {
			keys = append(keys, was.Key)
		}
	}
	for i := range p.Reused {
		if len(keys) < samples {
			keys = append(keys, p.Reused[i].Key)
		}
	}
	prev := p.request.Previous
	if prev == nil || len(keys) > 0 {
		return keys, nil
	}
	for entry, err := range p.request.Trees.From(ctx, prev.Datums, allFolder) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(entry.Path, allFolder) || len(keys) >= samples {
			break
		}
		was, err := parsePast(entry)
		if err != nil {
			return nil, err
		}
		keys = append(keys, was.of(prev.Recipe))
	}
	return keys, nil
}
