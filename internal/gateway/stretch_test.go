package gateway

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/versity/versitygw/s3err"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/gateway/upload"
)

// failing ends with an error where its end should be, as a body whose sum is wrong.
type failing struct{ io.Reader }

var errSum = errors.New("the sum is wrong")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errSum
	}
	return n, err
}

// TestParts keeps a part as it was said to be, whichever way its bytes come, and nothing
// of any other.
func TestParts(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		size int64
		want string // part of the error; empty: none
	}{
		"whole":               {strings.NewReader("part"), 4, ""},
		"byte by byte":        {iotest.OneByteReader(strings.NewReader("part")), 4, ""},
		"its end with it":     {iotest.DataErrReader(strings.NewReader("part")), 4, ""},
		"nothing":             {strings.NewReader(""), 0, ""},
		"too short":           {strings.NewReader("par"), 4, "IncompleteBody"},
		"too long":            {strings.NewReader("parts"), 4, "IncompleteBody"},
		"more than nothing":   {strings.NewReader("p"), 0, "IncompleteBody"},
		"a wrong sum":         {failing{strings.NewReader("part")}, 4, errSum.Error()},
		"a wrong sum at once": {failing{iotest.DataErrReader(strings.NewReader("part"))}, 4, errSum.Error()},
		"no sum of nothing":   {failing{strings.NewReader("")}, 0, errSum.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			u, ctx := upload.Store{Objects: &backend.Memory{}}, t.Context()
			id, err := u.Begin(ctx, upload.Upload{Namespace: "n", Dataset: "d", Branch: "main", Path: "a"})
			if err != nil {
				t.Fatal(err)
			}
			first, err := u.Put(ctx, id, 1, 3, &whole{from: strings.NewReader("old"), left: 3})
			if err != nil {
				t.Fatal(err)
			}
			p, err := u.Put(ctx, id, 1, c.size, &whole{from: c.body, left: c.size})
			if said := codeOf(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(said, c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			want := first
			if c.want == "" {
				want = p
			}
			there, err := u.Parts(ctx, id)
			if err != nil || len(there) != 1 || there[0].Tag != want.Tag || there[0].Size != want.Size {
				t.Errorf("%+v, %v, want %+v", there, err, want)
			}
			objects := 0
			if err := u.Objects.List(ctx, warehouse.Uploads, func(backend.Info) error { objects++; return nil }); err != nil || objects != 3 {
				t.Errorf("%d objects, %v", objects, err)
			}
		})
	}
}

// codeOf is an error with its code, as S3 has one.
func codeOf(err error) string {
	if api, is := errors.AsType[s3err.APIError](err); is {
		return api.Code
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
