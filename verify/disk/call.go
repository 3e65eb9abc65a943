package disk

// A Kind is the effect of a system call.
type Kind uint8

// The kinds of a Call.
const (
	Create   Kind = iota // opens a file that is created if there is none
	Write                // writes Data at Offset
	Truncate             // sets the length to Size
	Sync                 // makes the file's writes durable
	SyncDir              // makes the names in a directory durable
	Ack                  // prints Data, a line of the process
)

var kindNames = [...]string{"create", "write", "truncate", "sync", "sync of the directory", "acknowledgement"}

// String returns the kind in words.
func (k Kind) String() string { return kindNames[k] }

// A Call is a system call of a recorded process.
type Call struct {
	Kind   Kind
	Path   string
	Offset int64
	Size   int64
	Data   []byte
	Failed bool // the sync returned an error
}
