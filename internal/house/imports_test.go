package house

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An importRule lists the imports that the files of a package may have beside the standard library and the package's
// own internal/ directories. Test files are not bound by it. Every other import is a violation.
type importRule struct {
	module   []string // packages of this project, "." being the client
	vendors  []string // packages of other modules
	nested   bool     // the package is a separate module: its go.mod lists the other modules that it uses
	anything bool     // the package and those below it may import every package of this project
	testing  bool     // the package is made for tests, and may import "testing"
}

// importRules holds the import rule of each package, by directory. It is the only list of these rules:
// CONTRIBUTING.md and the linter's configuration have none.
var importRules = map[string]importRule{
	"taxonomy":             {},
	"internal/wire":        {},
	"internal/house":       {},
	"internal/flight":      {},
	"internal/browsertest": {testing: true},
	"internal/chance":      {},
	"internal/bidi":        {},
	"internal/fakeclock":   {},
	"internal/wallclock":   {},
	"internal/freeport":    {},
	"internal/stage":       {},
	"internal/hangtest":    {testing: true},
	"internal/racetest":    {testing: true},
	"internal/turn":        {module: []string{"store"}},
	"internal/envelope":    {module: []string{"store"}},
	"internal/settle":      {module: []string{"store"}},
	"internal/ledger":      {module: []string{"store"}},
	"internal/shop":        {},
	"internal/null":        {},
	"internal/exchange":    {module: []string{"taxonomy", "internal/wire"}},
	"internal/decision":    {module: []string{"taxonomy", "limit", "internal/wire", "internal/exchange"}},
	"internal/journal":     {module: []string{"taxonomy", "store", "internal/wire"}},
	"limit":                {module: []string{"internal/null"}, vendors: []string{"golang.org/x/time/rate"}},
	"store": {
		module:  []string{"taxonomy", "internal/null"},
		vendors: []string{"github.com/go-json-experiment/json"},
	},
	"store/memstore": {module: []string{"store", "taxonomy"}},
	"store/boltstore": {
		module:  []string{"store", "taxonomy", "internal/envelope", "internal/wallclock"},
		vendors: []string{"go.etcd.io/bbolt"},
	},
	"store/redisstore": {module: []string{"store", "taxonomy"}, vendors: []string{"github.com/redis/rueidis"}},
	"store/pebblestore": {
		module:  []string{"store", "taxonomy", "internal/envelope", "internal/wallclock"},
		vendors: []string{"github.com/cockroachdb/pebble/v2"},
	},
	"store/pgstore": {
		module:  []string{"store", "taxonomy", "store/sqltx", "store/pgstore/pgtable"},
		vendors: []string{"github.com/jackc/pgx/v5"},
	},
	"store/pgstore/pgtable": {module: []string{"store", "store/sqltx"}, vendors: []string{"github.com/jackc/pgx/v5"}},
	"store/pgstore/pgtest": {
		module:  []string{"internal/freeport"},
		vendors: []string{"github.com/jackc/pgx/v5"}, testing: true,
	},
	"store/sqltx": {module: []string{"store"}},
	"store/mysqlstore": {
		module:  []string{"store", "taxonomy", "store/sqltx"},
		vendors: []string{"github.com/go-sql-driver/mysql"},
	},
	"store/mysqlstore/mysqltest": {
		module:  []string{"internal/freeport"},
		vendors: []string{"github.com/go-sql-driver/mysql"}, testing: true,
	},
	"store/sqlitestore": {
		module:  []string{"store", "taxonomy", "store/sqltx"},
		vendors: []string{"modernc.org/sqlite"},
	},
	"store/storetest": {module: []string{"store"}, testing: true},
	"webhook":         {module: []string{"taxonomy", "internal/wire"}},
	".": {
		module: []string{
			"taxonomy", "store", "limit",
			"internal/wire", "internal/exchange", "internal/decision", "internal/journal", "internal/flight",
			"internal/turn",
			"internal/chance", "internal/null",
		},
		vendors: []string{
			"github.com/google/uuid",
			"github.com/hashicorp/go-retryablehttp",
		},
	},
	"profile": {module: []string{".", "taxonomy"}},
	"server": {module: []string{
		"taxonomy", "store", "internal/wire", "internal/chance", "internal/null", "internal/settle",
	}},
	"server/framework/internal/frametest": {module: []string{"server", "store/memstore"}, testing: true,
		vendors: []string{
			"github.com/stretchr/testify/require",
		}},
	"server/framework/internal/informational": {},
	"server/framework/gin": {module: []string{"server", "server/framework/internal/informational"},
		vendors: []string{"github.com/gin-gonic/gin"}},
	"server/framework/echo": {module: []string{"server", "server/framework/internal/informational"},
		vendors: []string{"github.com/labstack/echo/v4"}},
	"server/framework/echov5": {module: []string{"server", "server/framework/internal/informational"},
		vendors: []string{"github.com/labstack/echo/v5"}},
	"server/framework/fiber":   {module: []string{"server"}, vendors: []string{"github.com/gofiber/fiber/v3"}},
	"server/framework/connect": {module: []string{"server"}, vendors: []string{"connectrpc.com/connect"}},
	"server/framework/plain":   {},
	"gateway":                  {module: []string{".", "server", "store", "taxonomy", "internal/wire", "internal/null"}},
	"console": {module: []string{
		".", "store", "inbox", "outbox", "taxonomy", "internal/bidi", "internal/null", "internal/wire",
	}},
	"inbox": {module: []string{
		"taxonomy", "store", "webhook", "outbox", "internal/wire", "internal/null", "internal/settle",
	}},
	"outbox": {module: []string{
		"taxonomy", "store", "webhook", ".", "internal/wire", "internal/chance", "internal/null",
	}},
	"outbox/boltoutbox": {
		module:  []string{"taxonomy", "store", "store/boltstore", "outbox"},
		vendors: []string{"go.etcd.io/bbolt"},
	},
	"outbox/pgoutbox": {
		module:  []string{"taxonomy", "store", "store/sqltx", "store/pgstore/pgtable", "outbox"},
		vendors: []string{"github.com/jackc/pgx/v5"},
	},
	"outbox/memoutbox":  {module: []string{"store", "outbox"}},
	"outbox/outboxtest": {module: []string{"taxonomy", "store", "outbox"}, testing: true},
	"broker":            {module: []string{"taxonomy", "inbox", "outbox"}},
	"broker/internal/brokertest": {
		module:  []string{".", "inbox", "outbox", "outbox/boltoutbox", "store/boltstore", "store/memstore", "broker"},
		testing: true, vendors: []string{"github.com/stretchr/testify/require"},
	},
	"broker/aws": {
		module:  []string{"taxonomy", "inbox", "outbox", "broker"},
		vendors: []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"},
	},
	"broker/kafka": {
		module:  []string{"taxonomy", "inbox", "outbox", "broker"},
		vendors: []string{"github.com/twmb/franz-go/pkg"},
	},
	"broker/pubsub": {
		module:  []string{"taxonomy", "inbox", "outbox", "broker"},
		vendors: []string{"cloud.google.com/go/pubsub/v2", "github.com/googleapis/gax-go/v2", "google.golang.org/grpc"},
	},
	"broker/nats": {
		module:  []string{"taxonomy", "inbox", "outbox", "broker"},
		vendors: []string{"github.com/nats-io/nats.go"},
	},
	"servertest": {
		module:  []string{"taxonomy", "store", "store/memstore", "server", "conformance", "internal/wire"},
		testing: true,
	},
	"conformance": {module: []string{"taxonomy", "internal/wire"}},
	targetsDir:    {nested: true, anything: true},
	"otelredo": {module: []string{".", "server", "inbox", "outbox", "store", "taxonomy", "webhook", "internal/null"},
		nested: true},
	"cmd/redo":    {nested: true, anything: true},
	"examples":    {nested: true, anything: true, testing: true},
	"benchmarks":  {nested: true, anything: true, testing: true},
	"verify":      {nested: true, anything: true},
	"verify/orms": {nested: true, anything: true},
	"verify/sdks": {nested: true, anything: true},
}

// ruledBy returns the package whose rule binds the package in dir. That is dir itself, the package that has dir in
// its internal/ directory, or a directory that may import anything. It returns "" if there is none.
func ruledBy(dir string) string {
	for d := dir; ; d = path.Dir(d) {
		r, ok := importRules[d]
		inside := d != "." && strings.HasPrefix(dir, d+"/internal/")
		if ok && (d == dir || r.anything || inside) {
			return d
		}
		if d == "." {
			return ""
		}
	}
}

func checkImports(t *tree) []string {
	var found []string
	pkgs := t.packages()
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		owner := ruledBy(dir)
		if owner == "" {
			found = append(found, dir+": no import rule names this package: agree on one, then add it to importRules")
			continue
		}
		for _, f := range pkgs[dir] {
			for _, spec := range f.syntax.Imports {
				// The parser has accepted the literal, so it can be unquoted.
				imported, _ := strconv.Unquote(spec.Path.Value)
				if why := forbidden(owner, imported); why != "" {
					found = append(found, fmt.Sprintf("%s: imports %s: %s", t.at(spec.Pos()), imported, why))
				}
			}
		}
	}
	return found
}

// forbidden returns the rule that an import breaks, empty when it breaks none.
func forbidden(owner, imported string) string {
	r := importRules[owner]
	rest, ours := strings.CutPrefix(imported, modulePath)
	switch first, _, _ := strings.Cut(imported, "/"); {
	case ours && (rest == "" || rest[0] == '/'):
		target := path.Join(".", strings.TrimPrefix(rest, "/"))
		if r.anything || ruledBy(target) == owner || slices.Contains(r.module, target) {
			return ""
		}
		return fmt.Sprintf("%s may import of this project only %v", owner, r.module)
	case first == "testing":
		if r.testing {
			return ""
		}
		return "only packages made for tests may import testing, or its flags reach every program"
	case !strings.Contains(first, "."):
		return "" // the standard library
	case r.nested || slices.ContainsFunc(r.vendors, func(v string) bool { return within(imported, v) }):
		return ""
	default:
		return fmt.Sprintf("%s may import of other modules only %v", owner, r.vendors)
	}
}

// within reports whether a slash-separated path is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func TestImports(t *testing.T) { holds(t, checkImports) }

func TestImportsCanFail(t *testing.T) {
	imports := func(pkg string, paths ...string) string {
		src := "package " + pkg + "\n"
		for _, p := range paths {
			src += fmt.Sprintf("import _ %q\n", p)
		}
		return src
	}
	finds(t, checkImports, []breach{
		{
			rule: "an import that the rules allow is no violation",
			files: map[string]string{
				"client.go": imports("redo", modulePath+"/store", modulePath+"/limit",
					"github.com/hashicorp/go-retryablehttp", "net/http"),
				"limit/l.go": imports("limit", "golang.org/x/time/rate", "sync"),
				"client_test.go": imports("redo", modulePath+"/server",
					"github.com/jarcoal/httpmock"),
				"store/boltstore/internal/page/a.go": imports("page", "go.etcd.io/bbolt/errors"),
				"store/boltstore/b.go":               imports("boltstore", modulePath+"/store/boltstore/internal/page"),
				"store/redisstore/r.go":              imports("redisstore", "github.com/redis/rueidis"),
				"otelredo/o.go":                      imports("otelredo", "example.com/sdk"),
				"store/storetest/s.go":               imports("storetest", "testing", "testing/synctest"),
				"examples/gateway/main.go": imports("main", modulePath+"/server", modulePath,
					"example.com/sdk"),
			},
		},
		{
			rule:  "the client never imports the server side",
			files: map[string]string{"client.go": imports("redo", modulePath+"/server")},
			want: []string{"client.go:2: imports " + modulePath + "/server: . may import of this project only " +
				"[taxonomy store limit internal/wire internal/exchange internal/decision internal/journal " +
				"internal/flight internal/turn internal/chance internal/null]"},
		},
		{
			rule:  "servertest never imports the client",
			files: map[string]string{"servertest/s.go": imports("servertest", modulePath)},
			want: []string{"servertest/s.go:2: imports " + modulePath +
				": servertest may import of this project only [taxonomy store store/memstore server " +
				"conformance internal/wire]"},
		},
		{
			rule:  "stores never import each other",
			files: map[string]string{"store/boltstore/b.go": imports("boltstore", modulePath+"/store/memstore")},
			want: []string{"store/boltstore/b.go:2: imports " + modulePath +
				"/store/memstore: store/boltstore may import of this project only " +
				"[store taxonomy internal/envelope internal/wallclock]"},
		},
		{
			rule:  "the contract never imports an implementation",
			files: map[string]string{"store/s.go": imports("store", modulePath+"/store/memstore")},
			want: []string{"store/s.go:2: imports " + modulePath +
				"/store/memstore: store may import of this project only [taxonomy internal/null]"},
		},
		{
			rule:  "a leaf imports the standard library alone",
			files: map[string]string{"taxonomy/t.go": imports("taxonomy", "errors", "github.com/google/uuid")},
			want: []string{"taxonomy/t.go:3: imports github.com/google/uuid: taxonomy may import of " +
				"other modules only []"},
		},
		{
			rule:  "storm control never imports the client",
			files: map[string]string{"limit/l.go": imports("limit", modulePath)},
			want: []string{
				"limit/l.go:2: imports " + modulePath + ": limit may import of this project only [internal/null]",
			},
		},
		{
			rule:  "another module is imported only by the package that was given it",
			files: map[string]string{"server/s.go": imports("server", "go.etcd.io/bbolt")},
			want:  []string{"server/s.go:2: imports go.etcd.io/bbolt: server may import of other modules only []"},
		},
		{
			rule:  "a store that is a separate module imports its driver alone",
			files: map[string]string{"store/redisstore/r.go": imports("redisstore", "example.com/driver")},
			want: []string{"store/redisstore/r.go:2: imports example.com/driver: " +
				"store/redisstore may import of other modules only [github.com/redis/rueidis]"},
		},
		{
			rule:  "a path that only starts like an allowed one is another module",
			files: map[string]string{"keys.go": imports("redo", "github.com/google/uuidx", modulePath+"x/store")},
			want: []string{
				"keys.go:2: imports github.com/google/uuidx: . may import of other modules only " +
					"[github.com/google/uuid github.com/hashicorp/go-retryablehttp]",
				"keys.go:3: imports " + modulePath +
					"x/store: . may import of other modules only [github.com/google/uuid " +
					"github.com/hashicorp/go-retryablehttp]",
			},
		},
		{
			rule:  "conformance never imports testing",
			files: map[string]string{"conformance/c.go": imports("conformance", "testing")},
			want: []string{"conformance/c.go:2: imports testing: only packages made for tests may import testing, " +
				"or its flags reach every program"},
		},
		{
			rule:  "a package without a rule is a violation",
			files: map[string]string{"internal/extra/e.go": imports("extra")},
			want: []string{
				"internal/extra: no import rule names this package: agree on one, then add it to importRules",
			},
		},
	})
}
