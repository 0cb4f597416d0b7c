package stagevolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// postsName is the folder of posts.
const postsName = "posts"

// ProgramFile is, in a post, the program that workers run.
const ProgramFile = "muster-worker"

// post is what a pod asked for, and its record.
type post struct {
	Handle    string `json:"-"`
	Namespace string `json:"namespace"`
	// Pod is the pod's UID.
	Pod    string `json:"pod"`
	Work   string `json:"work"`
	Target string `json:"target"`
}

var (
	handles = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,200}$`)
	labels  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	works   = regexp.MustCompile(`^[a-z0-9][-a-z0-9]*\.[a-z0-9][-a-z0-9]*$`)
)

// check refuses what no pod of Muster asks for.
func (p *post) check() error {
	switch {
	case !handles.MatchString(p.Handle):
		return fmt.Errorf("the volume's id is %q: letters, digits, dots and dashes are expected", p.Handle)
	case !labels.MatchString(p.Namespace) || !handles.MatchString(p.Pod):
		return fmt.Errorf("the volume is one of pod %q of namespace %q: the kubelet is to say both (podInfoOnMount)", p.Pod, p.Namespace)
	case !works.MatchString(p.Work) || len(p.Work) > 200:
		return fmt.Errorf("the attribute %s is %q: the name of a run and its stage is expected, as Muster writes it", attributeWork, p.Work)
	case !filepath.IsAbs(p.Target):
		return fmt.Errorf("the target path is %q: an absolute one is expected", p.Target)
	}
	return nil
}

func (s *Server) recordOf(handle string) string {
	return filepath.Join(s.dir, "records", handle+".json")
}

func (s *Server) folderOf(handle string) string { return filepath.Join(s.dir, postsName, handle) }

// record writes down that there is a post.
func (s *Server) record(p post) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing the record of volume %s: %w", p.Handle, err)
	}
	if err := osfile.Replace(s.recordOf(p.Handle), text, 0o600); err != nil {
		return fmt.Errorf("writing the record of volume %s: %w", p.Handle, err)
	}
	return nil
}

// resume serves the posts that an earlier agent left, and removes those whose pods
// are gone.
func (s *Server) resume(ctx context.Context) error {
	list, err := os.ReadDir(filepath.Join(s.dir, "records"))
	if err != nil {
		return fmt.Errorf("reading the records of volumes: %w", err)
	}
	for _, e := range list {
		handle, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		text, err := os.ReadFile(s.recordOf(handle))
		if err != nil {
			return fmt.Errorf("reading the record of volume %s: %w", handle, err)
		}
		p := post{Handle: handle}
		if json.Unmarshal(text, &p) != nil || p.check() != nil {
			s.options.Log.Error("the record of a volume cannot be read; the kubelet asks for it again", "volume", handle)
			continue
		}
		if _, err := os.Stat(filepath.Dir(p.Target)); errors.Is(err, fs.ErrNotExist) {
			if err := s.end(handle); err != nil {
				return err
			}
			continue
		}
		if err := s.begin(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// begin makes a post and answers there, unless that is done already.
func (s *Server) begin(ctx context.Context, p post) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[p.Handle] != nil {
		return nil
	}
	folder := s.folderOf(p.Handle)
	if err := s.furnish(folder); err != nil {
		return fmt.Errorf("making the folder of volume %s: %w", p.Handle, err)
	}
	listener, err := inline.Listen(ctx, "unix", folder, shift.SocketFile)
	if err != nil {
		return fmt.Errorf("listening for the workers of %s: %w", p.Work, err)
	}
	server := &http.Server{Handler: s.answer(p), ReadHeaderTimeout: 10 * time.Second}
	s.open[p.Handle] = server
	s.group.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.options.Log.Error("workers of a stage cannot be served", "work", p.Work, "error", err)
		}
	})
	return nil
}

// furnish puts into a post what whoever the pod runs as may read.
func (s *Server) furnish(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	program := filepath.Join(folder, ProgramFile)
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	token := filepath.Join(folder, shift.TokenFile)
	// Who the pod is the agent knows: the token is there for who looks whether the
	// work is over.
	return errors.Join(os.Link(s.worker, program), os.WriteFile(token, []byte("by the agent"), 0o644), os.Chmod(token, 0o644), os.Chmod(folder, 0o755))
}

// answer hands on what is said about the post's own work.
func (s *Server) answer(p post) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := shift.Path + p.Work
		if r.URL.Path != own && !strings.HasPrefix(r.URL.Path, own+"/") || strings.Contains(r.URL.Path, "..") {
			w.Header().Set(shift.Mark, "1")
			http.Error(w, "this is not the post of that work", http.StatusNotFound)
			return
		}
		s.options.Pass(w, r, p.Namespace, "/pods/"+p.Pod+r.URL.Path)
	})
}

// end closes a post and forgets it.
func (s *Server) end(handle string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server := s.open[handle]; server != nil {
		_ = server.Close() // workers are gone
		delete(s.open, handle)
	}
	if err := os.RemoveAll(s.folderOf(handle)); err != nil {
		return fmt.Errorf("removing the folder of volume %s: %w", handle, err)
	}
	if err := os.Remove(s.recordOf(handle)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting volume %s: %w", handle, err)
	}
	return nil
}

// stop closes all posts, which stay where they are.
func (s *Server) stop() {
	s.mu.Lock()
	for _, server := range s.open {
		_ = server.Close() // workers ask again
	}
	s.mu.Unlock()
	s.group.Wait()
}
