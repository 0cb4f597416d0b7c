//go:build conformance

package conformance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPipelineResults: what was computed in one namespace, which is to another as one
// Muster to another, is not computed where it is brought; where the recipe is another
// one, it is said what differs.
func TestPipelineResults(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	here, there := the.author(t), the.author(t)
	letters := map[string]string{"a": "one\n", "b": "two\n"}
	text := fmt.Sprintf(words, the.image, inWords)
	here.says("created", "data", "create", "words")
	here.put("words", letters)
	here.apply(text)
	here.says("", "pipeline", "wait", "words", "--timeout", "50s")
	archive := filepath.Join(t.TempDir(), "words.tar")
	here.says("3 results", "pipeline", "results", "export", "words", archive)

	there.says("3 results of pipeline words taken", "pipeline", "results", "import", archive)
	there.says("3 were here already", "pipeline", "results", "import", archive)
	there.says("created", "data", "create", "words")
	there.put("words", letters)
	there.apply(text)
	there.says("", "pipeline", "wait", "words", "--timeout", "50s")
	there.says("ONE\nTWO\n", "data", "cat", "words-all:/all")
	if diff := cmp.Diff(map[string]int64{"upper": 0, "all": 0}, there.computed("words")); diff != "" {
		t.Errorf("computed, of what was brought: %s", diff)
	}
	there.says("computing a", "data", "cat", "muster-results:/**/log")

	elsewhere := the.author(t)
	elsewhere.says("3 results", "pipeline", "results", "import", archive)
	elsewhere.says("created", "data", "create", "words")
	elsewhere.put("words", letters)
	elsewhere.apply(strings.Replace(text, "tr a-z A-Z", "tr a-y A-Y", 1))
	elsewhere.says("", "pipeline", "wait", "words", "--timeout", "50s")
	if diff := cmp.Diff(map[string]int64{"upper": 2, "all": 0}, elsewhere.computed("words")); diff != "" {
		t.Errorf("computed, by another recipe: %s", diff)
	}
	elsewhere.says("brought from another Muster are not by the same recipe; word 2 of the command", "pipeline", "explain", "words", "upper")
}
