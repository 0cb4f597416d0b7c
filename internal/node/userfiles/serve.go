package userfiles

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// Verb is the first argument of the shim's program as a helper.
	Verb = "files-of-user"
	// socketFD is the helper's end of the socket pair.
	socketFD = 3
	// mostCalls is the number of calls that a helper works on at once.
	mostCalls = 16
)

// Serve is the program of a helper. Its arguments follow [Verb]; it returns the exit code.
func Serve(args []string) int {
	u, err := parseUser(args)
	if err == nil {
		err = become(u)
	}
	if unix.SetNonblock(socketFD, true) != nil {
		fmt.Fprintln(os.Stderr, "muster-shim: there is no socket; muster starts this program, and there is nothing to run by hand")
		return 2
	}
	socket := os.NewFile(socketFD, "socket")
	if err != nil {
		failed := reply{}
		failed.fail(err)
		_ = send(socket, failed, longestReply, nil) // ID 0 stands for the helper itself
		return 1
	}
	serve(socket)
	return 0
}

// serve answers requests until the other side closes the socket. It does not wait for calls that hang.
func serve(socket *os.File) {
	var writing sync.Mutex
	places := make(chan struct{}, mostCalls)
	for {
		var r request
		file, err := receive(socket, &r, longestRequest)
		if err != nil { // io.EOF: muster is done
			return
		}
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			answer, given := r.answer(file)
			closeAll(some(file))
			writing.Lock()
			defer writing.Unlock()
			_ = send(socket, answer, longestReply, given) // the other side gets a time-out
			closeAll(some(given))
		}()
	}
}

func some(file *os.File) []*os.File {
	if file == nil {
		return nil
	}
	return []*os.File{file}
}

// answer does what a request asks for. The caller closes the file that is returned.
func (r *request) answer(with *os.File) (answer reply, file *os.File) {
	answer.ID = r.ID
	err := r.Place.check()
	if err == nil {
		switch r.Call {
		case callOpen:
			file, answer.Info, err = r.Place.open(r.Flags, r.Mode)
		case callMake:
			err = r.Place.makeAll(r.Mode)
		case callStat:
			answer.Info, err = r.Place.stat()
		case callList:
			answer.Names, answer.Types, answer.More, err = r.Place.list(r.Skip)
		case callRead:
			answer.Data, answer.Info, err = r.Place.read(r.Most)
		case callMeasure:
			answer.Tree, err = r.Place.measure()
		case callScan:
			file, err = r.Place.scan(r.Skip, r.Most)
		case callRemove:
			err = r.Place.remove()
		case callLink:
			err = r.Place.link(r.Target)
		case callSub:
			answer.Place, err = r.Place.sub(r.Keep)
		case callCopy:
			err = r.Place.copy(with)
		case callReplace:
			err = r.Place.replace(with)
		default:
			err = fmt.Errorf("there is no call %q", r.Call)
		}
	}
	answer.fail(err)
	return answer, file
}
