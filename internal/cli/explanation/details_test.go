package explanation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

var record = flag.Bool("record", false, "write down the shapes of details instead of checking them")

// kinds are the reasons and the advice that have figures.
var kinds = []any{
	scheduling.CoolingOff{}, scheduling.Refused{}, scheduling.Missing{}, scheduling.Placed{}, scheduling.NoNodeAllows{}, scheduling.NoSuchModel{},
	scheduling.TooLarge{}, scheduling.ShortOfGPUs{}, scheduling.ShortOfResource{}, scheduling.ShortOfPorts{}, scheduling.Scattered{},
	scheduling.BlockedByQueue{}, scheduling.OverQuota{}, scheduling.KeptFree{}, scheduling.MakingRoom{}, scheduling.Paused{},
	scheduling.NoDomain{}, scheduling.InDomain{}, scheduling.TooFewDomains{}, scheduling.KeptApart{}, scheduling.Unsupported{},
	scheduling.ShortOfShare{}, scheduling.ShareTooLarge{},
	scheduling.FewerGPUs{}, scheduling.FewerMembers{}, scheduling.SmallerMembers{}, scheduling.OtherModel{}, scheduling.LessOfResource{},
	scheduling.ShorterTime{}, scheduling.QueueHasRoomLater{}, scheduling.WiderDomain{}, scheduling.MayShareDomain{}, scheduling.SmallerShare{},
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		switch v.Interface().(type) {
		case scheduling.Instant:
			v.SetInt(1_700_000_000_123_456_789)
		case estimate.Span:
			v.SetInt(int64(90 * estimate.Second))
		default:
			v.SetInt(7)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(scheduling.TooLarge{Resource: "gpu", Need: 7, Have: 7}))
	default:
		panic(fmt.Sprintf("a field of kind %s", v.Kind()))
	}
}

// The shape of details is kept: a name that changes, or goes, breaks whoever
// reads it. What is meant is written down with
//
//	go test ./internal/cli/explanation -record
func TestShapeOfDetails(t *testing.T) {
	shapes := map[string]any{}
	for _, kind := range kinds {
		v := reflect.New(reflect.TypeOf(kind)).Elem()
		fill(v)
		shapes[v.Type().Name()] = Details(v.Interface())
	}
	got, err := json.MarshalIndent(shapes, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", "details.json")
	if *record {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-kept +got:\n%s", diff)
	}
}

// TestDetailsOfUsers names the user alone of what others have.
func TestDetailsOfUsers(t *testing.T) {
	ann := scheduling.Key{Namespace: "ann"}
	want := map[string]any{"need": int64(1), "free": int64(0), "single": false, "holders": []any{
		map[string]any{"user": "ann", "pod": false, "claim": false, "count": int64(1), "share": map[string]any{"milli": int64(0), "mib": int64(0)}},
	}}
	got := Details(scheduling.ShortOfGPUs{Need: 1, Holders: []scheduling.GPUHolder{{Key: ann, Count: 1}}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = map[string]any{"victims": []any{map[string]any{"user": "ann"}}}
	if diff := cmp.Diff(want, Details(scheduling.MakingRoom{Victims: []scheduling.Key{ann}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDetailsWithoutFigures(t *testing.T) {
	if got := Details(scheduling.Suspended{}); got != nil {
		t.Errorf("details of a reason without any: %v", got)
	}
	if got := Details(nil); got != nil {
		t.Errorf("details of nothing: %v", got)
	}
	want := map[string]any{"need": int64(2), "free": int64(0), "single": false}
	if diff := cmp.Diff(want, Details(scheduling.ShortOfGPUs{Need: 2})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
