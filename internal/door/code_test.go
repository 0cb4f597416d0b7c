package door

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/turns"
)

// clocked is an answer that notes which deadlines it was given.
type clocked struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (c *clocked) SetReadDeadline(at time.Time) error {
	c.read = append(c.read, at)
	return nil
}

func (c *clocked) SetWriteDeadline(at time.Time) error {
	c.write = append(c.write, at)
	return nil
}

// A deadline holds while something is read or written, and not between: what the
// store takes then is not the asker's doing.
func TestDeadlinesHoldForOneReadOrWrite(t *testing.T) {
	c := &clocked{ResponseRecorder: httptest.NewRecorder()}
	turn, err := turns.New(1, 1, time.Now).In(t.Context(), "ada", "ada")
	if err != nil {
		t.Fatal(err)
	}
	body := &arriving{ReadCloser: io.NopCloser(strings.NewReader("code")), turn: turn, control: http.NewResponseController(c)}
	if text, err := io.ReadAll(body); err != nil || string(text) != "code" {
		t.Fatalf("%q %v", text, err)
	}
	if _, err := io.WriteString(&steady{ResponseWriter: c, turn: turn}, "code"); err != nil || c.Body.String() != "code" {
		t.Fatalf("%q %v", c.Body, err)
	}
	for name, deadlines := range map[string][]time.Time{"read": c.read, "write": c.write} {
		if len(deadlines) < 2 || len(deadlines)%2 != 0 {
			t.Fatalf("%s: %v", name, deadlines)
		}
		for i, at := range deadlines {
			if ends := i%2 == 1; at.IsZero() != ends {
				t.Errorf("%s: deadline %d is %v", name, i, at)
			}
		}
	}
}
