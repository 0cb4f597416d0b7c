package progress

import "sync"

// Savers knows which pods save in which folder: members of a job share one. Its
// methods may be called concurrently.
type Savers struct {
	mu      sync.Mutex
	folders map[string]string
}

// NewSavers returns an empty set.
func NewSavers() *Savers { return &Savers{folders: map[string]string{}} }

// Add notes that a pod saves in a folder.
func (s *Savers) Add(pod string, folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[pod] = folder
}

// Remove forgets a pod.
func (s *Savers) Remove(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.folders, pod)
}

// LeftToOthers says whether a pod leaves a folder to others: to the first, by
// UID, of those that save there.
func (s *Savers) LeftToOthers(pod string, folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, here := s.folders[pod]
	for other, f := range s.folders {
		if f == folder && other != pod && (!here || other < pod) {
			return true
		}
	}
	return false
}

// With tells the pods that save in a folder from others.
func (s *Savers) With(folder string) func(pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pods := map[string]bool{}
	for pod, f := range s.folders {
		if f == folder && folder != "" {
			pods[pod] = true
		}
	}
	return func(pod string) bool { return pods[pod] }
}
