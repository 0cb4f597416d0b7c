package systemd

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"
)

// Name is the name of the service.
const Name = "muster.service"

// Unit is the service of a Muster that several users of a machine share.
type Unit struct {
	// Program is the absolute path of muster.
	Program string
	// Args are the arguments of muster.
	Args []string
}

// Text returns the unit file. Its path and arguments must be printable: a line break would add a
// setting.
func (u Unit) Text() (string, error) {
	if !filepath.IsAbs(u.Program) {
		return "", fmt.Errorf("the program %q of a unit: give an absolute path", u.Program)
	}
	words := make([]string, 0, 1+len(u.Args))
	for _, word := range append([]string{u.Program}, u.Args...) {
		if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return "", fmt.Errorf("%q in the command line of a unit: only printable characters are allowed", word)
		}
		words = append(words, quote(word))
	}
	var out strings.Builder
	err := unitFile.Execute(&out, strings.Join(words, " "))
	return out.String(), err
}

// quote writes a word as systemd reads one of a command line: in quotation marks if it has other
// characters than those of usual paths and flags, with specifiers and variables escaped.
// Source: systemd.service(5), "Command lines"; systemd.syntax(7), "Quoting".
func quote(word string) string {
	usual := func(r rune) bool {
		return r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/-_.=:,+@", r))
	}
	escaped := strings.NewReplacer(`%`, `%%`, `$`, `$$`, `\`, `\\`, `"`, `\"`).Replace(word)
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !usual(r) }) {
		return escaped
	}
	return `"` + escaped + `"`
}

// unitFile is the text. KillMode and OOMPolicy keep the jobs: a stop of the service, or a job that
// the kernel ends for its memory, must not end the others.
var unitFile = template.Must(template.New(Name).Parse(`# Written by muster install --system. systemctl edit muster keeps changes in a file of their own.
[Unit]
Description=Muster: the GPUs of this machine for all of its users
Wants=network-online.target
After=network-online.target nss-user-lookup.target remote-fs.target containerd.service
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={{.}}
Restart=on-failure
RestartSec=2
# A misuse, such as a configuration file with an error, needs a person.
RestartPreventExitStatus=2
# Jobs go on while Muster is stopped, and the next start finds them.
KillMode=process
OOMPolicy=continue
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576
UMask=0077
RuntimeDirectory=muster
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
TimeoutStartSec=180
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
`))
