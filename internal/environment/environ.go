//go:build linux

package environment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// passed are Muster's own variables that programs of a build get: the search path, the
// language, and the administrator's settings for indexes, proxies and certificates. Any
// other variable may hold a secret, or lead to one.
var passed = []string{
	"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
	"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY",
	"PIP_DEFAULT_TIMEOUT", "PIP_TIMEOUT", "PIP_RETRIES", "PIP_ONLY_BINARY", "PIP_NO_BINARY", "PIP_PREFER_BINARY", "PIP_CONSTRAINT",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
}

// notFiles are the passed variables that name no files for the installer.
var notFiles = []string{"PATH", "LD_LIBRARY_PATH", "NO_PROXY", "no_proxy"}

// installerEnviron returns the variables of programs of a build, and the files that
// they name.
func installerEnviron(environ []string) (out, files []string) {
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if v == noPipFiles {
			out = append(out, v)
		}
		if value == "" || !slices.Contains(passed, name) {
			continue
		}
		out = append(out, v)
		if slices.Contains(notFiles, name) {
			continue
		}
		for _, word := range strings.Fields(value) {
			if path := strings.TrimPrefix(word, "file://"); filepath.IsAbs(path) {
				files = append(files, filepath.Clean(path))
			}
		}
	}
	return append(out, "PIP_NO_INPUT=1", "PYTHONNOUSERSITE=1", "PYTHONUNBUFFERED=1", "GIT_TERMINAL_PROMPT=0"), files
}

// pipFiles returns the settings files of pip of the user who runs Muster, by their paths
// in a home folder. pip itself reads the settings of the machine (/etc/pip.conf).
func pipFiles(get func(string) string) map[string]string {
	home, config := get("HOME"), get("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	found := map[string]string{}
	for at, path := range map[string]string{
		".config/pip/pip.conf": filepath.Join(config, "pip", "pip.conf"), ".pip/pip.conf": filepath.Join(home, ".pip", "pip.conf"), namedPipFile: get("PIP_CONFIG_FILE"),
	} {
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() {
			found[at] = path
		}
	}
	return found
}

// namedPipFile is where, in the home folder of a build, the file is that
// PIP_CONFIG_FILE names.
const namedPipFile = "pip.conf"

// noPipFiles is the variable that an administrator sets to make pip ignore all its settings
// files.
const noPipFiles = "PIP_CONFIG_FILE=" + os.DevNull

// lookUp reads variables from a list.
func lookUp(environ []string) func(string) string {
	return func(name string) string {
		for _, v := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// cache returns the variable for the folder of the installer's downloads. Confined builds
// share no downloads, so that no build can change the packages of another build.
func cache(environ []string, confined bool) string {
	get := lookUp(environ)
	folder := get("PIP_CACHE_DIR")
	switch {
	case confined:
		return "PIP_NO_CACHE_DIR=1"
	case folder != "":
	case get("XDG_CACHE_HOME") != "":
		folder = filepath.Join(get("XDG_CACHE_HOME"), "pip")
	case get("HOME") != "":
		folder = filepath.Join(get("HOME"), ".cache", "pip")
	default:
		return "PIP_NO_CACHE_DIR=1"
	}
	return "PIP_CACHE_DIR=" + folder
}
