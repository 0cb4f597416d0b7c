package terminal

import "strconv"

// Colour is a foreground colour or weight.
type Colour int

// The colours in use. Only the sixteen of every terminal's palette, so that
// the user's theme decides how they look.
const (
	Red     Colour = 31
	Green   Colour = 32
	Yellow  Colour = 33
	Blue    Colour = 34
	Magenta Colour = 35
	Cyan    Colour = 36
	Bold    Colour = 1
	Dim     Colour = 2
)

// members are the colours that tell the members of a job apart. Red is left
// out: it means trouble.
var members = [...]Colour{Cyan, Green, Yellow, Magenta, Blue}

// Style colours text, or leaves it alone.
type Style struct {
	enabled bool
	// mark is the first parameter of each colour. A [Guard] removes it, and lets no colour
	// without it pass.
	mark string
}

// Coloured returns a style that always colours, or never does.
func Coloured(enabled bool) Style { return Style{enabled: enabled} }

// Paint returns text in the colour.
func (s Style) Paint(colour Colour, text string) string {
	if !s.enabled || text == "" {
		return text
	}
	begin := "\x1b["
	if s.mark != "" {
		begin += s.mark + ";"
	}
	return begin + strconv.Itoa(int(colour)) + "m" + text + begin + "0m"
}

// Member returns the colour of the index-th member.
func Member(index int) Colour { return members[index%len(members)] }

// Phase returns text in the colour that belongs to the phase named by word:
// green for going well, red for failed, yellow for held up.
func (s Style) Phase(word, text string) string {
	switch word {
	case "Running", "Ready", "Active", "Bound":
		return s.Paint(Green, text)
	case "Succeeded", "Completed":
		return s.Paint(Blue, text)
	case "Failed", "Error", "NotReady", "OOMKilled", "Refused", "Unsupported":
		return s.Paint(Red, text)
	case "Waiting", "Pending", "Suspended", "Preparing", "Starting", "Planned", "Draining", "Terminating":
		return s.Paint(Yellow, text)
	}
	return text
}
