package environment

import "testing"

// TestID: requests are one exactly if all fields that count are the same.
func TestID(t *testing.T) {
	base := Request{Requirements: "six", Packages: map[string]string{"a": "1", "b": "2"}, Secret: "lab/index"}
	same := base
	same.Code = "sha256:00"
	if base.ID() != same.ID() {
		t.Error("the snapshot that has the packages counts")
	}
	for name, pair := range map[string][2]Request{
		"a Secret like an image":  {{Requirements: "six", Python: "3.11", Secret: "lab/index"}, {Requirements: "six\x003.11", Image: "secret=lab/index"}},
		"a Secret like a package": {{Requirements: "six", Secret: "lab/index"}, {Requirements: "six", Packages: map[string]string{"secret": "lab/index"}}},
	} {
		if pair[0].ID() == pair[1].ID() {
			t.Errorf("%s: %q and %q are one", name, pair[0], pair[1])
		}
	}
}
