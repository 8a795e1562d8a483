# Schedules jobs with the Sidekiq library, and prints each as JSON as the test expects it in Belfry.
require "json"
require "sidekiq"
require "sidekiq/api"

class Mailer
  include Sidekiq::Job
  sidekiq_options queue: "mails", retry: 5
  def perform(*); end
end

class Report
  include Sidekiq::Job
  sidekiq_options queue: "reports"
  def perform(*); end
end

class Once
  include Sidekiq::Job
  sidekiq_options retry: false
  def perform(*); end
end

Sidekiq.configure_client { |config| config.redis = { url: ARGV[0] } }
start = Time.now.to_i + 3600
kinds = [[Mailer, "mails", 6], [Report, "reports", 26], [Once, "default", 1]]
due = {}
2500.times do |i| # more than a page of a source
  kind = kinds[i % 3]
  due[kind[0].perform_at(start + i / 50 + 0.25, i, "grüße")] = kind
end
Sidekiq::ScheduledSet.new.each do |entry|
  kind, queue, attempts = due.fetch(entry.jid)
  puts JSON.generate(id: "sidekiq:#{entry.jid}", due: (entry.score * 1000).to_i, queue: queue, type: kind.name,
                     payload: entry.value, attempts: attempts, refused: false)
end
