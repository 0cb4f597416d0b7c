package rig

import (
	"os/exec"
	"testing"
)

func TestPipe(t *testing.T) {
	says, waits := NewPipe(t), NewPipe(t)
	command := exec.Command("/bin/sh", "-c", says.Say("one")+"; "+waits.Await()+"; "+says.Say("two"))
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if got := says.Hear(); got != "one" {
		t.Errorf("heard %q, want one", got)
	}
	waits.Open()
	if got := says.Hear(); got != "two" {
		t.Errorf("heard %q, want two", got)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}
