package graph

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

var diamond = []Node{
	{Name: "digits@main", Kind: "branch"},
	{Name: "split", Kind: "stage", Reads: []string{"digits@main"}, Does: "split.py"},
	{Name: "left", Kind: "stage", Reads: []string{"split"}, Does: "sh", Phase: "Succeeded", Message: "2 <new>\ndatums"},
	{Name: "right", Kind: "stage", Reads: []string{"split"}, Does: "sh, 1 GPU"},
	{Name: "both", Kind: "stage", Reads: []string{"left", "right"}, Does: "cat"},
	{Name: "after", Kind: "stage", Reads: []string{"both"}, Does: "cat"},
}

func TestText(t *testing.T) {
	want := `digits@main
└─ split  split.py
   ├─ left  sh  Succeeded: 2 <new> datums
   │  └─ both  cat
   │     └─ after  cat
   └─ right  sh, 1 GPU
      └─ both  (see above)
`
	if diff := cmp.Diff(want, Text(diamond, terminal.Coloured(false))); diff != "" {
		t.Error(diff)
	}
}

func TestSVG(t *testing.T) {
	svg := SVG("p & q", diamond)
	decoder := xml.NewDecoder(strings.NewReader(svg))
	counts := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
	if counts["rect"] != len(diamond) || counts["path"] != 6 {
		t.Errorf("there are %v", counts)
	}
}
