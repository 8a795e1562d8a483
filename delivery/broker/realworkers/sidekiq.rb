# A job for a worker of Sidekiq, which prints what it was given.
require "sidekiq"

class CloseOrder
  include Sidekiq::Job
  def perform(order)
    puts "closed #{order} #{jid}"
  end
end

$stdout.sync = true
Sidekiq.configure_server { |config| config.on(:startup) { puts "working" } }
