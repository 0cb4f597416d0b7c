package kind

import "strings"

// jobs are the kinds of which every object is, or becomes, a training job of
// the same name.
var jobs = map[string]bool{
	"trainingjob": true, "trainingjobs": true, "tj": true,
	"tfjob": true, "tfjobs": true, "pytorchjob": true, "pytorchjobs": true,
}

// Job returns the name of the training job that a word means, where only a
// training job can be meant: "mnist", "tj/mnist" and "tfjob/mnist" are mnist. A
// word with any other kind is returned as it is.
func Job(word string) string {
	prefix, name, found := strings.Cut(word, "/")
	if bare, _, _ := strings.Cut(strings.ToLower(prefix), "."); found && jobs[bare] {
		return name
	}
	return word
}
