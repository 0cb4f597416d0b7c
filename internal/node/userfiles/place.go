package userfiles

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Place is a path as a user sees it.
type Place struct {
	// Base is an absolute path. Links in it are followed, unless NoLinks is set.
	Base string `json:"base"`
	// Below is a path in Base, relative to it. No link in it is followed. Empty: Base itself.
	Below string `json:"below,omitempty"`
	// NoLinks follows no link in Base.
	NoLinks bool `json:"noLinks,omitempty"`
	// OneMount enters no mount below Base. Users can mount file systems that hang.
	OneMount bool `json:"oneMount,omitempty"`
}

// Join returns a place below this one.
func (p Place) Join(names ...string) Place {
	p.Below = path.Join(append([]string{p.Below}, names...)...)
	return p
}

// String is the whole path.
func (p Place) String() string { return filepath.Join(p.Base, p.Below) }

func (p Place) check() error {
	switch {
	case !filepath.IsAbs(p.Base) || strings.ContainsRune(p.Base, 0):
		return fmt.Errorf("the path %q is not absolute; give one that begins with /", p.Base)
	case p.Below != "" && (!filepath.IsLocal(p.Below) || strings.ContainsRune(p.Below, 0)):
		return fmt.Errorf("the path %q leads out of %s; give one below it", p.Below, p.Base)
	}
	return nil
}
