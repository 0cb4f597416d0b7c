package data

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// condemnedPrefix is what the keys of all lists of condemned objects begin with.
const condemnedPrefix = "condemned/"

// sentence is what is written of objects that are about to be removed.
type sentence struct {
	Objects []string `json:"objects"`
}

// condemned are the keys of all objects that a collection is about to remove.
func (s *Store) condemned(ctx context.Context) (map[string]bool, error) {
	all, err := s.sentences(ctx)
	found := map[string]bool{}
	for _, v := range all {
		for _, key := range v.objects {
			found[key] = true
		}
	}
	return found, err
}

// verdict is one sentence that was found.
type verdict struct {
	key     string
	since   time.Time
	objects []string
}

func (s *Store) sentences(ctx context.Context) ([]verdict, error) {
	var all []verdict
	err := s.backend.List(ctx, condemnedPrefix, func(i backend.Info) error {
		text, err := backend.Read(ctx, s.backend, i.Key)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // carried out meanwhile
		}
		var said sentence
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", i.Key, err)
		}
		all = append(all, verdict{key: i.Key, since: i.Stored, objects: said.Objects})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for what is being collected: %w", err)
	}
	return all, nil
}

// condemn writes down what is about to be removed, beside what was before.
func (c *collection) condemn(ctx context.Context, old []verdict, garbage map[string]bool) ([]verdict, error) {
	for _, v := range old {
		for _, key := range v.objects {
			delete(garbage, key)
		}
	}
	if len(garbage) == 0 {
		return old, nil
	}
	said := sentence{Objects: slices.Sorted(maps.Keys(garbage))}
	text, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	v := verdict{key: condemnedPrefix + rand.Text(), objects: said.Objects}
	if err := c.backend.Put(ctx, v.key, text); err != nil {
		return nil, err
	}
	info, err := c.backend.Stat(ctx, v.key)
	v.since = info.Stored
	return append(old, v), err
}
