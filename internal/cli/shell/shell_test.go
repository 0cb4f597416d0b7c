package shell

import (
	"testing"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/remote"
)

func TestAProgramThatIsNotThereIsSaid(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		said int64
		tty  bool
		want string
	}{
		{"nobody said anything", 127, 0, false, "nosuch: there is no such program in mnist-worker-0"},
		{"not executable", 126, 0, false, "nosuch cannot be executed in mnist-worker-0"},
		{"it was said", 127, 20, false, ""},
		{"on a terminal everything is output", 127, 0, true, ""},
		{"the program's own code", 3, 0, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, say := exit.Of(ended("mnist-worker-0", remote.Command{Argv: []string{"nosuch"}, TTY: c.tty}, c.code, c.said))
			if int(code) != c.code || say != (c.want != "") {
				t.Errorf("code %d, said %v", code, say)
			}
			if err := ended("mnist-worker-0", remote.Command{Argv: []string{"nosuch"}, TTY: c.tty}, c.code, c.said); say && err.Error() != c.want {
				t.Errorf("it says %q, want %q", err, c.want)
			}
		})
	}
	if err := ended("mnist-worker-0", remote.Command{}, 0, 0); err != nil {
		t.Errorf("exit code 0 is an error: %v", err)
	}
}
