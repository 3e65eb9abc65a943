module github.com/redo-go/redo/benchmarks

go 1.26.0

// Never released: the benchmarks always measure the checkout they stand in.
replace (
	github.com/redo-go/redo => ../
	github.com/redo-go/redo/store/pgstore => ../store/pgstore
	github.com/redo-go/redo/store/redisstore => ../store/redisstore
)

require (
	github.com/google/uuid v1.6.0
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/jackc/pgx/v5 v5.12.0
	github.com/redis/rueidis v1.0.79
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/pgstore v0.0.0-00010101000000-000000000000
	github.com/redo-go/redo/store/redisstore v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
