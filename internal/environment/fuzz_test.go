//go:build linux

package environment

import (
	"strings"
	"testing"
)

// FuzzNormalise: Normalise returns its own results unchanged, with no line that reads a file, and
// Mask leaves no password in them.
func FuzzNormalise(f *testing.F) {
	for _, text := range []string{
		"numpy==2.0 # why\r\n\n-i https://user:secret@x/simple\ntorch \\\n  >=2\n", "-e .", "-rother.txt", "x @ file:///etc/passwd", "a @ git+https://u@h/x#egg=a",
		"-f ./x", "a\\", "\ufeffb", "-\u00a0r x", "http://[::1", "numpy\u2028-r x", "# \\\n-r x", "a #\\\n-e .", "x @ fi\\ \nle:///etc/passwd", "\\ ", "numpy\x1c-r x", "a\x1ec", "a \\ # b\nc", "\\\n#\\\n-r x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Normalise(text)
		if err != nil {
			return
		}
		again, err := Normalise(got)
		if err != nil || again != got {
			t.Fatalf("%q becomes %q, and then %q, %v", text, got, again, err)
		}
		for line := range strings.Lines(got) {
			for _, option := range []string{"-r", "-e", "-c", "--requirement", "--editable", "--constraint"} {
				if strings.HasPrefix(line, option) && (len(option) == 2 && line[1] != '-' || strings.HasPrefix(line, "--")) && !strings.HasPrefix(line, "--require-hashes") {
					t.Fatalf("%q becomes the line %q", text, line)
				}
			}
			if strings.ContainsAny(line, "\v\f\r\x1c\x1d\x1e\u0085\u2028\u2029") {
				t.Fatalf("%q becomes a line that Python reads as several, %q", text, line)
			}
			if line == "\n" || !strings.HasSuffix(line, "\n") {
				t.Fatalf("%q becomes the line %q", text, line)
			}
		}
		if shown := Mask(got); Mask(shown) != shown {
			t.Fatalf("%q is shown as %q, and then as %q", got, shown, Mask(shown))
		}
	})
}

// FuzzMask: Mask hides a secret in an address, between any texts.
func FuzzMask(f *testing.F) {
	f.Add("-i ", "user", "/simple")
	f.Add("", "a@b", "?x=@y")
	f.Add("x'", "%zz", ":port")
	f.Add("", "@", "0")
	f.Fuzz(func(t *testing.T, before, user, after string) {
		const secret = "s3cr3ts3cr3t"
		if strings.ContainsAny(user, "/?#'\" \t\n\r\v\f") || strings.ContainsAny(after, "@") && !strings.HasPrefix(after, "/") || strings.Contains(before+user+after, secret) {
			return
		}
		text := before + "https://" + user + ":" + secret + "@example.com" + after
		if strings.Contains(Mask(text), secret) {
			t.Fatalf("%q is shown as %q", text, Mask(text))
		}
	})
}
