package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// What lies below the path of a result.
const (
	// OutFolder has the files that the datum made; there is none if it made none.
	OutFolder = "out"
	// LogFile is what it printed.
	LogFile = "log"
	// RecordFile is the [Record]. Where it is, the result is there.
	RecordFile = "record.json"
	// againFile leads to a result of the same key that was asked for anew. A result
	// itself never changes: outputs that have it are told from it.
	againFile = "again"
)

// ResultPath is the folder of a result in the dataset of results.
func ResultPath(key digest.ID) string {
	s := key.String()
	return s[:2] + "/" + s[2:]
}

// FailedPath is the folder of what is kept of a datum that failed: as of a result,
// but it is never taken for one.
func FailedPath(key digest.ID) string { return failedFolder + ResultPath(key) }

// LeadsToFailed says whether a link to the folder of a result leads to that of a datum that
// failed.
func LeadsToFailed(target string) bool {
	return strings.HasPrefix(strings.TrimLeft(target, "./"), failedFolder)
}

// RunsFolder has the datums of runs by their names, in the dataset of results: below
// the name of each run, links to results. They go with the run; see [Sweep].
const RunsFolder = "runs/"

// RecipePath is where a recipe is kept in the dataset of results.
func RecipePath(id digest.ID) string { return "recipes/" + id.String() + ".json" }

// BroughtPath is the file, in the dataset of results, that names the recipe by which a
// stage ran last in the Muster from which its results were brought.
func BroughtPath(pipeline, stage string) string { return "brought/" + pipeline + "/" + stage }

// Record is what is known of how a result came about.
type Record struct {
	Key    digest.ID `json:"key"`
	Recipe digest.ID `json:"recipe"`
	Files  digest.ID `json:"files"`
	// Datum is the name of the datum, as the stage that computed it knew it.
	Datum    string `json:"datum"`
	Pipeline string `json:"pipeline,omitempty"`
	Stage    string `json:"stage,omitempty"`
	Run      string `json:"run,omitempty"`
	// Exit is how the program ended.
	Exit int `json:"exit"`
	// Error says in words why it failed, if it did.
	Error string `json:"error,omitempty"`
	// Tries is how often it was begun.
	Tries int `json:"tries,omitempty"`
	// Started is when the last try began, Seconds how long it took.
	Started time.Time `json:"started,omitzero"`
	Seconds float64   `json:"seconds"`
	// GPUs is how many GPUs it had, or which share of one.
	GPUs float64 `json:"gpus,omitempty"`
	// Where is the machine or node.
	Where string `json:"where,omitempty"`
}

// Encode is the record as it is kept.
func (r *Record) Encode() ([]byte, error) { return json.Marshal(r) }

// DecodeRecord reads what Encode wrote.
func DecodeRecord(text []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading the record of a result: %w", err)
	}
	return &r, nil
}

// Results looks up results.
type Results struct {
	Trees *tree.Tree
	// Root is the tree of the dataset of results; zero: there are none.
	Root tree.Root
}

// Find is the result of each key: the key itself, that of a result which was asked
// for anew since, or zero where there is none. It costs what is looked up.
func (r Results) Find(ctx context.Context, keys []digest.ID) ([]digest.ID, error) {
	found := make([]digest.ID, len(keys))
	if r.Root.ID.IsZero() {
		return found, nil
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(keys[a][:], keys[b][:]) })
	for _, i := range order {
		is, err := r.find(ctx, keys[i])
		if err != nil {
			return nil, fmt.Errorf("looking for result %s: %w", keys[i].Short(), err)
		}
		found[i] = is
	}
	return found, nil
}

func (r Results) find(ctx context.Context, key digest.ID) (digest.ID, error) {
	again, err := r.Trees.Get(ctx, r.Root, ResultPath(key)+"/"+againFile)
	if err == nil {
		newer, err := parsePast(&again)
		if err != nil {
			return digest.ID{}, err
		}
		if there, err := r.has(ctx, newer.files); there || err != nil {
			return newer.files, err
		}
	}
	if ignoreMissing(err) != nil {
		return digest.ID{}, err
	}
	if there, err := r.has(ctx, key); !there || err != nil {
		return digest.ID{}, err
	}
	return key, nil
}

// has says whether there is a result.
func (r Results) has(ctx context.Context, key digest.ID) (bool, error) {
	_, err := r.Trees.Get(ctx, r.Root, ResultPath(key)+"/"+RecordFile)
	return err == nil, ignoreMissing(err)
}

// made shows the files of a result, with their paths in the output, and says
// whether there is one.
func (r Results) made(ctx context.Context, key digest.ID, see func(*tree.Entry) error) (bool, error) {
	folder, there := ResultPath(key)+"/", false
	if r.Root.ID.IsZero() {
		return false, nil
	}
	for e, err := range r.Trees.From(ctx, r.Root, folder) {
		if err != nil {
			return false, err
		}
		path, ok := strings.CutPrefix(e.Path, folder)
		if !ok {
			break
		}
		if path == RecordFile {
			there = true
		}
		path, ok = strings.CutPrefix(path, OutFolder+"/")
		if !ok {
			continue
		}
		inside := *e
		inside.Path = path
		if err := see(&inside); err != nil {
			return false, err
		}
	}
	return there, nil
}

// byName sorts datums.
func byName(a, b Datum) int { return cmp.Compare(a.Name, b.Name) }
