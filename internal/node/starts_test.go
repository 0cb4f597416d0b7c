package node

import "testing"

func TestStarts(t *testing.T) {
	var s starts
	if s.done() != nil {
		t.Fatal("nothing is being started")
	}
	s.begin()
	s.begin()
	calm := s.done()
	s.end()
	select {
	case <-calm:
		t.Fatal("one is still being started")
	default:
	}
	s.end()
	<-calm
	if s.done() != nil {
		t.Fatal("nothing is being started any more")
	}
}
