package datavolume

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestHostileCommits: a commit that no checkout writes is an error that the pod's job gets. The
// agent does not try such a commit again, neither for a pod nor ahead of one.
func TestHostileCommits(t *testing.T) {
	for name, c := range map[string]struct {
		files, bytes int64
		entries      []crafted.Entry
		says         string
	}{
		"more files than it claims": {1, -1, []crafted.Entry{{Path: "a", Content: "1"}, {Path: "b", Content: "2"}}, "claimed"},
		"more bytes than it claims": {-1, 1, []crafted.Entry{{Path: "a", Content: strings.Repeat("1", 1<<20)}}, "claimed"},
		"fewer than it claims":      {3, -1, []crafted.Entry{{Path: "a", Content: "1"}}, "claimed"},
		"an entry below a link":     {-1, -1, []crafted.Entry{{Path: "a/x", Content: "1"}, {Path: "b", Target: "a"}, {Path: "b/y", Content: "2"}}, "is a file or link and"},
		"a link out":                {-1, -1, []crafted.Entry{{Path: "a", Target: "../outside"}}, "out of the tree"},
		"a link out over a link":    {-1, -1, []crafted.Entry{{Path: "a/b/c", Content: "1"}, {Path: "a/b/up", Target: "../.."}, {Path: "z", Target: "a/b/up/../outside"}}, "over another link"},
		"a path out":                {-1, -1, []crafted.Entry{{Path: "../outside", Content: "1"}}, `part ".."`},
		"a name of ours":            {-1, -1, []crafted.Entry{{Path: ".muster-partial-0123", Content: "1"}}, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			o := s.order()
			stored, err := crafted.Store(t.Context(), s.stores["team"], c.files, c.bytes, c.entries...)
			must(t, err)
			must(t, stored.Contents(t.Context()))
			commit := stored.ID.String()
			if _, err := s.server.NodePublishVolume(t.Context(), s.request("a0", "team", commit)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the kubelet hears %v, want %q", err, c.says)
			}
			said := s.hears(types.UID("a0"), v1alpha1.DataLost, c.says)
			if strings.Contains(said.Message, "trying again") {
				t.Errorf("it is tried again: %s", said.Message)
			}
			s.unpublish("a0")
			o.give(v1alpha1.DataOrder{Namespace: "team", Commit: commit})
			s.eventually("it is fetched ahead for ever", func() bool {
				s.server.agenda.mu.Lock()
				defer s.server.agenda.mu.Unlock()
				return len(s.server.agenda.errands) == 1 && s.server.agenda.errands[0].done
			})
		})
	}
}
