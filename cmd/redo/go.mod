module github.com/redo-go/redo/cmd/redo

go 1.26.0

// Until the first release: the command line and what it shows move together.
replace (
	github.com/redo-go/redo => ../../
	github.com/redo-go/redo/outbox/pgoutbox => ../../outbox/pgoutbox
	github.com/redo-go/redo/store/mysqlstore => ../../store/mysqlstore
	github.com/redo-go/redo/store/pgstore => ../../store/pgstore
	github.com/redo-go/redo/store/redisstore => ../../store/redisstore
	github.com/redo-go/redo/store/sqlitestore => ../../store/sqlitestore
)

require (
	github.com/agext/levenshtein v1.2.3
	github.com/go-sql-driver/mysql v1.10.1
	github.com/jackc/pgx/v5 v5.12.0
	github.com/pb33f/go-yaml v0.1.1
	github.com/pb33f/libopenapi v0.42.3
	github.com/redis/rueidis v1.0.79
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/outbox/pgoutbox v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/mysqlstore v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/pgstore v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/redisstore v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/sqlitestore v0.0.0-00010101000000-000000000000
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/bahlo/generic-list-go v0.2.0 // indirect
	github.com/buger/jsonparser v1.1.2 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/pb33f/jsonpath v0.8.4 // indirect
	github.com/pb33f/ordered-map/v2 v2.3.2 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.0 // indirect
)
