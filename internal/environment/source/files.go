package source

// Files are the files of a stored snapshot: path -> name of the content, with what
// a link says in place of that.
func (s *Store) Files(digest string) (map[string]string, error) {
	t, err := s.readTree(digest)
	if err != nil {
		return nil, err
	}
	return t.files(), nil
}

// Named are the files of the snapshot, as [Store.Files] says them.
func (p *Parcel) Named() map[string]string { return p.tree.files() }

func (t *tree) files() map[string]string {
	files := map[string]string{}
	for i := range t.Entries {
		switch e := &t.Entries[i]; e.Type {
		case typeFile:
			files[e.Path] = e.Hash
		case typeLink:
			files[e.Path] = "-> " + e.Target
		}
	}
	return files
}
