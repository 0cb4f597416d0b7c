package suggestion

import "testing"

func TestNearest(t *testing.T) {
	files := []string{"train.py", "model.py", "README.md", "data.py", "q"}
	for _, test := range []struct{ word, want string }{
		{"trian.py", "train.py"},
		{"train.p", "train.py"},
		{"Train.py", "train.py"},
		{"modle.py", "model.py"},
		{"completely-else.txt", ""},
		{"x", ""},
		{"ab", ""},
		{"qq", "q"},
		{"", ""},
	} {
		if got := Nearest(test.word, files); got != test.want {
			t.Errorf("Nearest(%q) = %q, want %q", test.word, got, test.want)
		}
	}
	if got, want := Phrase("trian.py", files), "; did you mean train.py?"; got != want {
		t.Errorf("Phrase = %q, want %q", got, want)
	}
}
