package environment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// named is the beginning of a requirement (PEP 508): a name, and extras.
	named = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) ?(?:\[ ?((?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?: ?, ?)?)*) ?\])? ?(.*)$`)
	// specifier is one condition on the version.
	specifier = regexp.MustCompile(`^(===|~=|==|!=|<=|>=|<|>) ?([A-Za-z0-9][A-Za-z0-9_.*+!-]*)$`)
	// digest is a hash that pip compares with a file.
	digest = regexp.MustCompile(`^(sha256:[0-9A-Fa-f]{64}|sha384:[0-9A-Fa-f]{96}|sha512:[0-9A-Fa-f]{128})$`)
)

// archives are endings of names: pip takes a requirement with one for a file.
var archives = []string{".zip", ".whl", ".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tlz", ".tar.lz", ".tar.lzma"}

// rewriteRequirement checks a line with a requirement, and writes it anew. Only
// hashes may follow the requirement.
func rewriteRequirement(words []string) (string, error) {
	// pip takes each word that begins with a dash for an option, also in a marker.
	begin := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
	if begin < 0 {
		begin = len(words)
	}
	text := strings.Join(words[:begin], " ")
	hashes, err := readHashes(words[begin:])
	if err != nil {
		return "", fmt.Errorf("%q: %w", Mask(strings.Join(words, " ")), err)
	}
	written, err := writeRequirement(text)
	if err != nil {
		return "", err
	}
	return written + hashes, nil
}

// readHashes reads the options behind a requirement, which may be hashes only.
func readHashes(words []string) (string, error) {
	var out strings.Builder
	for len(words) > 0 {
		name, value, attached := strings.Cut(words[0], "=")
		words = words[1:]
		if name != "--hash" {
			return "", fmt.Errorf("the option %q is not allowed behind a requirement; only --hash is", Mask(name))
		}
		if !attached && len(words) > 0 {
			value, words = words[0], words[1:]
		}
		if !digest.MatchString(value) {
			return "", fmt.Errorf("%q is no hash; give one such as --hash=sha256: and 64 hexadecimal digits", Mask(value))
		}
		out.WriteString(" --hash=" + value)
	}
	return out.String(), nil
}

// writeRequirement writes a requirement without hashes: of a name and versions,
// of a name and an address, or of an address.
func writeRequirement(text string) (string, error) {
	head, condition, conditional := strings.Cut(text, ";")
	head = strings.TrimSpace(head)
	marker := ""
	if conditional {
		written, err := writeMarker(condition)
		if err != nil {
			return "", fmt.Errorf("%q: %w", Mask(text), err)
		}
		marker = " ; " + written
	}
	if scheme, _, found := strings.Cut(head, "://"); found && !strings.ContainsAny(scheme, " @") {
		if err := localFile(scheme, text); err != nil {
			return "", err
		}
		if err := checkAddress(head, true); err != nil {
			return "", err
		}
		return head + marker, nil
	}
	if isLocal(head) {
		written, err := writeLocal(head)
		return written + marker, err
	}
	parts := named.FindStringSubmatch(head)
	if parts == nil {
		return "", mistaken(text)
	}
	name, rest := parts[1]+writeExtras(parts[2]), parts[3]
	if address, found := strings.CutPrefix(rest, "@"); found {
		address = strings.TrimSpace(address)
		scheme, _, found := strings.Cut(address, ":")
		if !found || strings.Contains(scheme, "/") {
			scheme = "file"
		}
		if err := localFile(scheme, text); err != nil {
			return "", err
		}
		if err := checkAddress(address, true); err != nil {
			return "", err
		}
		return name + " @ " + address + marker, nil
	}
	versions, ok := writeVersions(rest)
	if !ok || isArchive(parts[1]+versions) || isArchive(parts[1]) {
		return "", mistaken(text)
	}
	return name + versions + marker, nil
}

// writeExtras writes the names in brackets.
func writeExtras(list string) string {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, ",") + "]"
}

// writeVersions writes the conditions on a version.
func writeVersions(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if inner, found := strings.CutPrefix(text, "("); found {
		if inner, found = strings.CutSuffix(inner, ")"); !found {
			return "", false
		}
		text = strings.TrimSpace(inner)
	}
	if text == "" {
		return "", true
	}
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		found := specifier.FindStringSubmatch(strings.TrimSpace(part))
		if found == nil {
			return "", false
		}
		out = append(out, found[1]+found[2])
	}
	return strings.Join(out, ","), true
}

// isArchive reports whether pip would look for a file of this name.
func isArchive(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(archives, func(ending string) bool { return strings.HasSuffix(text, ending) })
}

// localFile refuses addresses of files of the machine that builds.
func localFile(scheme, text string) error {
	scheme = strings.ToLower(scheme)
	if scheme == "file" || strings.HasSuffix(scheme, "+file") {
		return fmt.Errorf("%q refers to a file; %s", Mask(text), advice)
	}
	return nil
}

// mistaken returns the error for a line that is no requirement.
func mistaken(text string) error {
	head, _, _ := strings.Cut(text, ";")
	head = strings.TrimSpace(head)
	if strings.ContainsAny(head, `/\`) || strings.HasPrefix(head, ".") || strings.HasPrefix(head, "~") || isArchive(strings.SplitN(head, "[", 2)[0]) ||
		strings.HasPrefix(strings.ToLower(head), "file:") {
		return fmt.Errorf("%q refers to a file; %s", Mask(text), advice)
	}
	return fmt.Errorf("%q is no requirement; give a name and versions, such as numpy>=2.1,<3, or a name and an address, such as pkg @ https://example.com/pkg.whl", Mask(text))
}
