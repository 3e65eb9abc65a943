# A Rack application behind the middleware that the setting LIBRARY names, set up as its README shows it.
require "json"
require "logger"
require "redis"

LEDGER = ENV["EFFECTS"] # a file, where effects outlive a restart; without it they are in memory
REDIS = Redis.new(url: ENV.fetch("REDIS", "redis://127.0.0.1:6379/0"))

# What is sold: the effects, counted by account, and the switches that make an order slow or fail.
class Shop
  LARGE = "0123456789abcdef" * 65_536

  def initialize
    @lock = Mutex.new
    @counts = Hash.new(0)
    File.foreach(LEDGER, chomp: true) { |account| @counts[account] += 1 } if LEDGER && File.exist?(LEDGER)
  end

  def call(env)
    request = Rack::Request.new(env)
    return json(200, "count" => @counts[request.params["account"]]) if request.get?

    sell(request.path, JSON.parse(request.body.read), env)
  rescue JSON::ParserError
    json(400, "error" => "no order")
  end

  private

  def json(status, document, headers = {})
    [status, { "Content-Type" => "application/json" }.merge(headers), [JSON.dump(document)]]
  end

  def sell(path, order, env)
    return json(400, "error" => "no order") unless order["amount"].is_a?(Integer) && order["amount"].positive?

    case env["HTTP_X_FAULT"]
    when "500" then return json(500, "error" => "the bank is down")
    when "429" then return json(429, { "error" => "too many orders" }, "Retry-After" => "0")
    when "crash"
      Process.kill(:KILL, Process.pid) if LEDGER
      raise "a failure that nobody foresaw"
    end
    sleep(env["HTTP_X_SLOW"].to_i / 1000.0)
    id = make(order["account"])
    return [204, {}, []] if path == "/empty"
    return [200, { "Content-Type" => "text/plain" }, [LARGE]] if path == "/large"

    json(201, { "id" => id, "item" => order["item"], "amount" => order["amount"] },
         "Location" => "#{path}/#{id}", "ETag" => %("#{id}"))
  end

  # make makes the order: this is the effect that must happen once.
  def make(account)
    @lock.synchronize do
      File.open(LEDGER, "a") { |file| file.puts(account) } if LEDGER
      @counts[account] += 1
      "o-#{@counts.values.sum}"
    end
  end
end

# Every POST and PATCH is meant to be idempotent.
Writes = Struct.new(:request) do
  def should?
    request.post? || request.patch?
  end
end

# guard puts the middleware in front of the shop, with a retention in seconds where it isn't the default.
guard = {
  "idempotent-request" => lambda do |shop, retention|
    require "idempotent-request"
    storage = IdempotentRequest::RedisStorage.new(REDIS, expire_time: retention || 86_400)
    IdempotentRequest::Middleware.new(shop, storage: storage, policy: Writes)
  end,
  "rack-idempotency_key" => lambda do |shop, retention|
    require "rack/idempotency_key"
    config = { expires_in: retention }.compact
    store = Rack::IdempotencyKey::MemoryStore.new(**config)
    store = Rack::IdempotencyKey::RedisStore.new(REDIS, **config) if LEDGER
    Rack::IdempotencyKey.new(shop, store: store)
  end,
  "rack-idempotency" => lambda do |shop, _|
    require "rack/idempotency"
    Rack::Idempotency.new(shop, store: Rack::Idempotency::Store::Memory.new)
  end,
  "rack-idempotency-kit" => lambda do |shop, retention|
    require "active_support"
    require "active_support/cache"
    require "rack/idempotency/kit"
    store = LEDGER ? REDIS : ActiveSupport::Cache::MemoryStore.new
    Rack::Idempotency::Kit.new(shop, **{ store: store, ttl: retention }.compact)
  end
}.fetch(ENV.fetch("LIBRARY"))

shop = Shop.new
map("/short") { run guard.call(->(env) { shop.call(env) }, 2) }
map("/") { run guard.call(shop, nil) }
